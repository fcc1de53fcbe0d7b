"""A table of requests in all states, and what an archive answers to each."""
