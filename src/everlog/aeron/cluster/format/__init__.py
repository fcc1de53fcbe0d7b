"""What a node's files hold: recording.log, node-state.dat, mark files, messages of the log."""
