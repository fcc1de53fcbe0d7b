"""Aeron frames: finding them in bytes, making them from messages, and the meaning of their fields."""
