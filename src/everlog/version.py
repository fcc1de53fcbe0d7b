"""The package's version, for modules that may not import the package itself, which is above them."""

__version__ = "0.1.0"
