"""Migrations: what moves from which store to which target, notes of how far it has come."""
