"""UDP media of Aeron's transport: channels, names, interfaces, sockets, endpoints and their destinations."""
