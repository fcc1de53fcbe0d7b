"""Reads images: readers, fragment assembly, bulk polls into columns."""
