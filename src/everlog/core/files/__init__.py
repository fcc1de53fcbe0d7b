"""Access to files and folders, local or behind URLs. Everything else in everlog reads and writes through it."""
