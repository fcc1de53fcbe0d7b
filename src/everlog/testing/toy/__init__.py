"""The smallest whole family: what tests put above stores, and an example of a family of one's own.

``EVERLOG_FAMILIES=everlog.testing.toy.family.TOY`` makes it known to everlog, and to every process that inherits the
variable.
"""
