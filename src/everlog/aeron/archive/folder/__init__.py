"""Finding recordings in a folder, and reading them."""
