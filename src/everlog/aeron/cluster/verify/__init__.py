"""Checks a node's folder: its files against each other, the log and the snapshots."""
