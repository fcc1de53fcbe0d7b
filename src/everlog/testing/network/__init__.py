"""A seeded network that loses, doubles, delays and parts, and what runs on it."""
