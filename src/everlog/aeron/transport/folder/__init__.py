"""A driver's folder as others find it: scanning its log buffers, its streams, its faults."""
