"""How a journal is doing: lag, health, what `ls` and `info` say."""
