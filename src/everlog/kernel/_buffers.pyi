class Buffer:
    """A column's memory, read through the buffer protocol."""

    capacity: int
