"""What all families share; it knows none of them."""
