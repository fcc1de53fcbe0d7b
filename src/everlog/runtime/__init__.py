"""Runs agents: threads with a duty cycle, idle strategies, and command queues. Independent of store families."""
