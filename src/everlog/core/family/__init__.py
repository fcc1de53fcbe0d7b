"""What everlog knows of a family of stores: its record, and the interfaces that the record names."""
