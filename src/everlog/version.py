"""The package's version, for modules below ``everlog`` that can't import it."""

__version__ = "0.1.0"
