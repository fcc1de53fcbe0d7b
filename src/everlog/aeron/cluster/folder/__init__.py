"""Reads a node's folder: its archive, log, snapshots and state."""
