"""``everlog metrics`` and ``everlog check``."""
