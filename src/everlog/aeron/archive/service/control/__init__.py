"""Control sessions of clients: connecting, requests, answers."""
