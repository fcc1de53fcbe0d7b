"""Monitoring of media drivers: what is observed, its metrics, and the check."""
