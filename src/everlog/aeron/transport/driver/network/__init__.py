"""The conductor's network part: creates and closes channels, endpoints, publications, subscriptions and images."""
