"""Who the clients of a service are, and what each may do."""
