"""Stores and servers that tests make."""
