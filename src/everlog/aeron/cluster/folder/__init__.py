"""A node's folder: its archive, its log and snapshots, the state it is in."""
