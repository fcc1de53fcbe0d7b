"""File and folder access, local or by URL. The rest of everlog reads and writes through this package."""
