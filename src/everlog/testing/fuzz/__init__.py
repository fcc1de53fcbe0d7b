"""Damage: mutations of stores and datagrams, blind and guided by coverage."""
