"""Questions about recordings: positions, lists, the last one that matches."""
