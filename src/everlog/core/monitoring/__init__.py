"""What the monitoring of all families shares: metrics for Prometheus, checks with the statuses of Nagios."""
