"""What a driver can be told: Aeron's properties as files, environment and callers give them, checked together."""
