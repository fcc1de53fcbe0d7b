"""Live queries: which stores and streams there are, how far they have come, what the next batch holds."""
