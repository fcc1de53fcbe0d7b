"""Checking a node's folder: its files against each other, against the log and the snapshots."""
