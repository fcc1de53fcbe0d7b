"""What a family of stores tells everlog: its record, and what the record names."""
