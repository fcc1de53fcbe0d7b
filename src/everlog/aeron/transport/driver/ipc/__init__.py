"""Publications in shared memory, their subscriptions and limits."""
