"""The client of a media driver: publications, subscriptions and counters of a program that takes part.
``everlog.aeron.Aeron`` is the way in."""
