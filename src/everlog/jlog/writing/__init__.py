"""Appending to a journal, beside other writers."""
