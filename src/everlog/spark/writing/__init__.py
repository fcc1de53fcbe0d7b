"""Writing from Spark: tasks stage, the driver appends, a note makes a retry exact."""
