"""What a media driver's files hold: cnc.dat, counters, loss report, log buffers, commands."""
