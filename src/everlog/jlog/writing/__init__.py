"""Creates journals and appends to them, together with other writers."""
