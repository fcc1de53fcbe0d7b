"""What is done to recordings that are there (truncated, purged, detached, attached, migrated): decided without I/O, and
then done."""
