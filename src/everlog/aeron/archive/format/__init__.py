"""The formats of an archive's files: catalog, segments and mark file."""
