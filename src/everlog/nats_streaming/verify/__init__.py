"""Checking a store: one report with every fault."""
