"""The messages of a cluster: with clients, between members, with services, in the log and in snapshots."""
