"""Writes NATS Streaming file stores."""
