"""Writing into an archive's folder: who owns it, its catalog, recorders and their segments."""
