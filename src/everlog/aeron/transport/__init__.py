"""Aeron's transport: the media driver and its folder, its clients, and the protocols between them."""
