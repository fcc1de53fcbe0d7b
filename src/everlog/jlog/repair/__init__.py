"""Repairs a journal: plans the steps, then applies them."""
