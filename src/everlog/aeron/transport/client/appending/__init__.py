"""Publishing into a log: appenders and their claims."""
