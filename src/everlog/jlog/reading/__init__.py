"""Finding the messages of a journal, past whatever damage it has."""
