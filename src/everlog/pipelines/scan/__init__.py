"""What a query asks for, which tasks read it, and what a task returns: records, groups or faults as Arrow batches."""
