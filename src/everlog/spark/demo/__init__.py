"""The demo: reads, verifies and counts the golden stores."""
