"""Exports: what is new, the files, their manifest, reading them back."""
