"""Pipelines over many stores, independent of the engine that runs them: scan, follow, append, export, migrate,
statistics."""
