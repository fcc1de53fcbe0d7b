"""Writing into an archive's folder: its ownership, its catalog, the recorders and their segments."""
