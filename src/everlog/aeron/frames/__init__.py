"""Frames of Aeron: found in bytes, made from messages, and what their fields mean."""
