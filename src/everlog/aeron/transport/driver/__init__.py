"""A media driver: conductor, sender, receiver, and what they share."""
