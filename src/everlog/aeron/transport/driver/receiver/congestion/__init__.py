"""Congestion control: decides the window that a receiver grants its sender."""
