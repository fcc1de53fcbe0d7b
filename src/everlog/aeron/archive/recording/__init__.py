"""Recordings of an open archive: options, events, replays, and what is refused."""
