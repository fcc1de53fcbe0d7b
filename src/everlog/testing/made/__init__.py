"""Stores that tests generate, and servers that they start."""
