"""The media driver: its conductor, sender and receiver, and what they share."""
