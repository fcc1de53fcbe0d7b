"""The demo's questions about Aeron's clusters and media drivers: who sent what and when, whether the members agree, and
what the drivers counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from everlog.aeron.cluster.family import CLUSTER
from everlog.aeron.cluster.store import ClusterStore
from everlog.aeron.cluster.tool.replicas import compare_nodes
from everlog.aeron.transport.family import DRIVER
from everlog.core.report import Report
from everlog.stores import open_store, storage_of

SESSIONS = f"""
    WITH sent AS (
        SELECT element_at(split(store, '/'), -3) AS cluster, position, cluster_session_id AS session,
               min(leadership_term_id) AS term, min(timestamp) AS time, min(length) AS length,
               count(DISTINCT store) AS members
        FROM messages
        WHERE family = '{CLUSTER.name}' AND stream = 'log' AND kind = 'session-message' AND cluster_session_id > 0
        GROUP BY ALL
    )
    SELECT cluster, date_format(date_trunc('second', time), 'yyyy-MM-dd HH:mm:ss') AS second, session, term,
           count(*) AS messages, sum(length) AS bytes, min(members) AS fewest, max(members) AS most
    FROM sent GROUP BY ALL ORDER BY cluster, second, session, term
"""
"""Each message is counted once, however many members have it: its position is the same in all of them. Session ids of
services' own messages are negative. A store's path ends with cluster, node and ``cluster``."""

NO_COUNTS = frozenset({"client-heartbeat", "archive-control-session"})
"""Types whose values are times and ids, which would always be the largest and mean nothing."""
VERSIONS = frozenset({34, 43})
"""System counters that hold versions: Aeron's, and the control protocol's."""
MAX_OTHERS = 6
"""Counters of a driver that are shown in addition to the system's."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The members of a cluster, the one with the longest log first, and the result of comparing them."""

    cluster: str
    nodes: tuple[str, ...]
    report: Report


@dataclass(frozen=True, slots=True)
class DriverCounters:
    """A driver's counters. ``system``: number of a system counter to its value; ``others``: label and value of the
    largest counter of each other type."""

    store: str
    system: dict[int, int]
    labels: dict[int, str]
    others: tuple[tuple[str, int], ...]


def compare_clusters(summary: Iterable[dict[str, Any]]) -> Iterator[Comparison]:
    """Compare the nodes of each cluster that has several. ``summary`` has a row for each stream that was read. Raises
    what opening a node raises."""
    ends = {r["store"]: int(r["last_address"]) for r in summary if r["family"] == CLUSTER.name and r["stream"] == "log"}
    clusters: dict[Path, list[str]] = {}
    for store in sorted(ends, key=lambda store: (-ends[store], store)):
        clusters.setdefault(Path(store).parents[1], []).append(store)
    for folder, stores in sorted(clusters.items()):
        if len(stores) < 2:
            continue
        with ExitStack() as stack:
            nodes = [stack.enter_context(ClusterStore.open(storage_of(store), {})) for store in stores]
            report = compare_nodes(nodes)
        yield Comparison(folder.name, tuple(Path(store).parent.name for store in stores), report)


def driver_counters(stores: Iterable[str]) -> list[DriverCounters]:
    """The counters of driver folders, by path. Raises what opening a store raises."""
    found = []
    for path in sorted(stores):
        with open_store(path, family=DRIVER.name) as store:
            counters = [c for c in store.info()["counters"] if c["state"] == "allocated"]
        system = {c["key"]["system_counter_id"]: c for c in counters if c["type"] == "system"}
        system = {number: counter for number, counter in system.items() if number not in VERSIONS}
        values = {number: c["value"] for number, c in system.items()}
        labels = {number: _plain_label(c["label"]) for number, c in system.items()}
        found.append(DriverCounters(path, values, labels, _largest_others(counters)))
    return found


def _largest_others(counters: list[dict[str, Any]]) -> tuple[tuple[str, int], ...]:
    largest: dict[Any, tuple[str, int]] = {}
    for counter in counters:
        kind = counter["type"] or counter["type_id"]
        if kind != "system" and kind not in NO_COUNTS and counter["value"] > largest.get(kind, ("", 0))[1]:
            largest[kind] = counter["label"], counter["value"]
    return tuple(sorted(largest.values(), key=lambda pair: (-pair[1], pair[0]))[:MAX_OTHERS])


def _plain_label(label: str) -> str:
    """The label without what a driver appends, such as its version."""
    return label.split(": ")[0]
