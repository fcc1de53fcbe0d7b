"""The protocols between clients and a driver, and between drivers: values to bytes and back."""
