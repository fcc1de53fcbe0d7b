"""Monitoring of archives: what is observed, its metrics, and the check."""
