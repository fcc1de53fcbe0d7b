"""The control protocol: layouts of its messages."""
