"""The conductor: clients, their commands, what is tied to them, what they are told."""
