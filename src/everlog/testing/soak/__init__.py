"""Long runs in which processes are killed."""
