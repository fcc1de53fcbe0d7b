"""The receiver: writes datagrams into images, sends NAKs for gaps, and reports windows to the sources."""
