"""Runs the groups and prints their lines; exit code 1 if any is SHORT."""

from __future__ import annotations

import importlib
import sys

from benchmarks.lines import machine

GROUPS = {
    "walks": "walking frames into columns against memcpy",
    "framing": "messages into the frames of a recording against memcpy",
    "sbe": "SBE messages into columns against the package of that name",
    "commands": "the command line, start to end",
    "listing": "listing large archives and many channels",
    "cluster": "a cluster's log, message by message, and a long recording log",
    "memory": "private memory while reading a store of 4 GiB",
    "spark": "the Spark data source against Parquet",
}
JOURNAL_GROUPS = {
    "jlog_append": "appending to a journal against the C library",
    "jlog_sync": "synced appends by many threads against one",
    "jlog_read": "reading a journal as a subscriber against the C library",
    "jlog_many": "journals with very many segments and subscribers",
    "jlog_queues": "durable queues from PyPI",
}
"""Run by ``jlog``, and not by a run without names."""
ARCHIVE_GROUPS = {
    "archive_record": "recording against the real Aeron Archive",
    "archive_replay": "replaying into columns against the real Aeron Archive",
    "archive_many": "archives with very many recordings",
    "archive_sync": "synced appends by many threads against one",
}
"""Run by ``archive``, and not by a run without names."""
TRANSPORT_GROUPS = {
    "transport_ipc": "IPC in one process against the real Aeron",
    "transport_processes": "IPC between two processes against the real Aeron",
    "transport_udp": "UDP against the real Aeron, with loss and without; an idle driver",
}
"""Run by ``transport``, and not by a run without names."""
SERVICE_GROUPS = {
    "archive_service": "the live archive against the real Aeron Archive",
    "archive_service_load": "the live archive: many recordings against the real Aeron Archive, idle, and by session",
    "archive_service_catalog": "a live archive with very many recordings",
}
"""Run by ``service``, and not by a run without names."""
SPARK_GROUPS = {
    "spark_decoded": "SBE columns and aggregation near the data against Parquet",
    "spark_planning": "planning over very many segments, and the memory of workers",
    "spark_verify": "verifying an archive of 8 GiB on one core and on two",
    "spark_live": "live queries against batch queries, and against Spark's own rate source",
}
"""Run by ``spark_all``, with ``spark``; not by a run without names."""


def main(names: list[str]) -> int:
    """Run the named groups; without names those that need nothing from elsewhere, or leave out what can't be had.
    ``jlog``, ``archive``, ``transport``, ``service`` and ``spark_all`` stand for several."""
    groups = GROUPS | JOURNAL_GROUPS | ARCHIVE_GROUPS | TRANSPORT_GROUPS | SERVICE_GROUPS | SPARK_GROUPS
    together = {
        "jlog": JOURNAL_GROUPS,
        "archive": ARCHIVE_GROUPS,
        "transport": TRANSPORT_GROUPS,
        "service": SERVICE_GROUPS,
        "spark_all": {"spark": "", **SPARK_GROUPS},
    }
    names = [part for name in names for part in together.get(name, [name])]
    if unknown := [name for name in names if name not in groups]:
        known = ", ".join([*together, *groups])
        print(f"unknown group {', '.join(unknown)}; there are {known}", file=sys.stderr)
        return 2
    short = 0
    for name in names or GROUPS:
        print(f"{machine()}: {groups[name]}", flush=True)
        for line in importlib.import_module(f"benchmarks.{name}").lines():
            if isinstance(line, str):
                print(f"# {line}", flush=True)
                continue
            print(line, flush=True)
            short += not line.ok
    if not names:
        print("# journals beside the C library, which is downloaded: make bench-jlog", flush=True)
        print("# archives beside the real one, whose jar is downloaded: make bench-archive", flush=True)
        print("# all of Spark: make bench-spark", flush=True)
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
