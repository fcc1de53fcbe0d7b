"""Storages for tests: in memory, with counted calls, with faults, and with power cuts."""
