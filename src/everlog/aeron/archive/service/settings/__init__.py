"""How an archive service runs: its settings, and Aeron's properties that give them."""
