"""Running agents: threads that do a duty cycle, how they idle, and what they are asked. No family."""
