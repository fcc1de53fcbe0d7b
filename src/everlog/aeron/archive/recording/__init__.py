"""Recordings of an open archive: options, events, replays, errors."""
