"""``python -m everlog`` is the command line."""

from everlog.cli import main

if __name__ == "__main__":
    main()
