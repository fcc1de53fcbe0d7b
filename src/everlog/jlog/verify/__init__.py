"""Verifies a journal: one report with every fault."""
