"""What client and driver, and drivers among each other, say: values to bytes and back."""
