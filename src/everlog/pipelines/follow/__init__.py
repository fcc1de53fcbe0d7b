"""Live queries: which stores and streams exist, how far they reach, and what the next batch holds."""
