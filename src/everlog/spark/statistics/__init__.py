"""Statistics of many stores, or of a DataFrame, as Spark jobs."""
