"""Pipelines as Spark jobs."""
