"""Replays of recordings to publications."""
