"""Maintenance that clients ask for: truncating, purging, detaching, attaching, migrating, changing channels."""
