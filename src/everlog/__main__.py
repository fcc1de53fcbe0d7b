"""Runs the command line as ``python -m everlog``."""

from everlog.cli import main

if __name__ == "__main__":
    main()
