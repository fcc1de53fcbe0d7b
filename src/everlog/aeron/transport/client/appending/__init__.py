"""Appends messages to a log buffer: appenders and buffer claims."""
