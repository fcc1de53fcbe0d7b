"""The smallest complete family: for tests of the layers above stores, and as an example for your own family.

``EVERLOG_FAMILIES=everlog.testing.toy.family.TOY`` registers it with everlog in this process and in every process that
inherits the variable.
"""
