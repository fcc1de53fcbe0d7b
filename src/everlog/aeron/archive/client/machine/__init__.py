"""Machines without I/O or clock: opening a session, and its requests."""
