"""File and folder access, local or behind URLs. The rest of everlog reads and writes through this package."""
