"""The driver's settings: Aeron's properties from files, the environment and callers, and their checks."""
