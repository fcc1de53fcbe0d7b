"""The conductor's network part: channels, endpoints, publications, subscriptions and images, made and taken apart."""
