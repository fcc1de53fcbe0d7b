"""Work over many stores, whatever engine runs it: scan, follow, append, export, migrate, statistics."""
