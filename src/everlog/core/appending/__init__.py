"""What a family implements so that batches of messages can be appended to its stores, each exactly once."""
