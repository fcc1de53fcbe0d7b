"""Sessions over an Aeron client, without waiting."""
