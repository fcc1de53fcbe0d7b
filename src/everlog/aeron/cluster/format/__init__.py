"""The formats of a node's files: recording.log, node-state.dat, mark files, and the messages of log and snapshots."""
