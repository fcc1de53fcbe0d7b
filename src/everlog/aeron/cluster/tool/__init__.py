"""ClusterTool's changes of recording.log, and the comparison of nodes."""
