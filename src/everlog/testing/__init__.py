"""Tools for testing stores, shipped so that others can use them: the contract of every store, faulty storages, fuzzers,
a simulated network."""
