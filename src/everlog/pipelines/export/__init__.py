"""Exports: what is still to export, the files, their manifest, and reading them back."""
