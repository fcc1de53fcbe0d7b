"""What is put right in an archive's folder: after a kill when it is opened, or by ``everlog repair``."""
