"""Memory that clients and driver share: ring buffers, broadcast buffers, counters, logs."""
