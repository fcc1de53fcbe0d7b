"""Files and folders: the one seam between everlog and the disk, and what lies behind URLs."""
