"""Code shared by all families; it depends on none of them."""
