"""A client of any archive, ours or Aeron's own."""
