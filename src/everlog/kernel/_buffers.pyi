class Buffer:
    """Memory of a column; read through the buffer protocol."""

    capacity: int
