"""Reading a journal as one of its subscribers; their checkpoints; removing what all are done with."""
