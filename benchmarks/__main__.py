"""Runs the groups and prints their lines; exit code 1 if any is SHORT."""

from __future__ import annotations

import importlib
import sys

from benchmarks.lines import machine

GROUPS = {
    "walks": "walking frames into columns against memcpy",
    "commands": "the command line, start to end",
    "listing": "listing large archives and many channels",
    "memory": "private memory while reading a store of 4 GiB",
    "spark": "the Spark data source against Parquet",
}


def main(names: list[str]) -> int:
    """Run the named groups, all without names."""
    if unknown := [name for name in names if name not in GROUPS]:
        print(f"unknown group {', '.join(unknown)}; there are {', '.join(GROUPS)}", file=sys.stderr)
        return 2
    short = 0
    for name in names or GROUPS:
        print(f"{machine()}: {GROUPS[name]}", flush=True)
        for line in importlib.import_module(f"benchmarks.{name}").lines():
            print(line, flush=True)
            short += not line.ok
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
