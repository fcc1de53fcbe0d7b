"""What an archive's files hold: catalog, segments, mark file."""
