"""Repairing a journal: a plan of steps, then doing them."""
