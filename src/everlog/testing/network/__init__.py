"""A seeded network that loses, duplicates, delays and partitions, and drivers that run on it."""
