"""Lag and health of a journal, and the summaries of `ls` and `info`."""
