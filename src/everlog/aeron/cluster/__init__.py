"""A cluster node's folder: recording log, node state, mark files, the log and its snapshots, read-only."""
