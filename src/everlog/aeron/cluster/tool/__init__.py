"""What ClusterTool does with recording.log, and comparing nodes."""
