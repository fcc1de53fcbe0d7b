"""The receiver: datagrams into images, what is missing asked for, windows told."""
