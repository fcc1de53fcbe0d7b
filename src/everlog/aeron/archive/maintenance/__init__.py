"""Maintenance of existing recordings: truncate, purge, detach, attach and migrate. Each operation is decided without
I/O, then applied."""
