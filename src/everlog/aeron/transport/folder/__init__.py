"""Reads a driver's folder: log buffer scans, stream statistics, fault codes."""
