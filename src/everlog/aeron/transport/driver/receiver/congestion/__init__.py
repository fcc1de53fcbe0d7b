"""How much a receiver lets its sender send ahead."""
