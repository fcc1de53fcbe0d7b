"""Statistics: folding what a split holds, joining splits."""
