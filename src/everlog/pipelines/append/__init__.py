"""Writes rows to a store exactly once: staged parts, notes, commits."""
