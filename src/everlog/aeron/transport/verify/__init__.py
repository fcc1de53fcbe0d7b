"""Checks a media driver's folder: one report with every fault."""
