"""Checks a store and reports every fault."""
