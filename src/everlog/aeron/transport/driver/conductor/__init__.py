"""The conductor: clients, their commands and resources, and the events sent to them."""
