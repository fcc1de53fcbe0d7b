"""Recovers an archive's folder when it is opened after a kill, and repairs it (``everlog repair``)."""
