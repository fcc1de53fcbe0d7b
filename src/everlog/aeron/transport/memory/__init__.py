"""The memory that client and driver share: rings, counters, logs."""
