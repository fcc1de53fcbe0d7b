"""Records images: one recording per image of each subscription that a client asked for."""
