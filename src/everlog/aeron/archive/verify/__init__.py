"""Verifies an archive: one report with every fault."""
