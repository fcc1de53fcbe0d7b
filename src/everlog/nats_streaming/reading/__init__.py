"""Reads a channel's messages: slices, indexes, recovery from damage, limits, decryption."""
