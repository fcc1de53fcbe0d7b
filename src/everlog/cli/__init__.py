"""The ``everlog`` command: one module per command group.

Data goes to stdout, progress and warnings to stderr. Exit codes: 0 fine, 1 faults found, 2 wrong usage or no store, 130
interrupted.
"""

from __future__ import annotations

from typing import NoReturn


def main() -> NoReturn:
    """Entry point of the ``everlog`` script: runs the command of ``sys.argv`` and exits."""
    from everlog.cli.app import run

    raise SystemExit(run())
