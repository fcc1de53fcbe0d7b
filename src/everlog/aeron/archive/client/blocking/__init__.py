"""The client whose calls wait."""
