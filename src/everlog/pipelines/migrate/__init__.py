"""Migrations: what moves from which store to which target, and notes of the progress."""
