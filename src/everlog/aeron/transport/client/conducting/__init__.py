"""The client's conductor: commands, the driver's events, heartbeats and the client's resources."""
