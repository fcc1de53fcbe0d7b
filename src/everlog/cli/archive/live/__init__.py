"""Verbs of a running archive, which go through its control channel."""
