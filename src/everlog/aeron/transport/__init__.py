"""The media driver's folder: command and control file, loss report, log buffers. Nothing here writes."""
