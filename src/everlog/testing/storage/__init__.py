"""Storages in memory, counted, faulty, and cut off from power."""
