"""Simulations of the live archive: one seed is one run of archive, clients and crashes, with all invariants checked."""
