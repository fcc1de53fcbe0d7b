"""Finds recordings in an archive's folder, and reads them."""
