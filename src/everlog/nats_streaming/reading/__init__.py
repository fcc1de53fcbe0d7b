"""Finding a channel's messages: slices, indexes, damage, limits."""
