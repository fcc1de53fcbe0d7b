"""The client's conductor: commands, the driver's events, who lives, what the client has."""
