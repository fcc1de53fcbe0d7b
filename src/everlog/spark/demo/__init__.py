"""The demo: the golden stores, read, checked and counted."""
