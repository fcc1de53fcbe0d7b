"""A client of any archive, ours or Aeron's own. Start with :class:`AeronArchive` or :class:`AsyncAeronArchive`."""
