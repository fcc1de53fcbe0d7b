"""Finds the messages of a journal, past any damage."""
