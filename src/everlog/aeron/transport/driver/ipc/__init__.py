"""IPC publications (in shared memory), their subscriptions and limits."""
