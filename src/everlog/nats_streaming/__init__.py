"""NATS Streaming file stores (server 0.25), read-only."""
