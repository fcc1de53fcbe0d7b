"""Subscribers of a journal: reading, checkpoints, and removal of consumed segments."""
