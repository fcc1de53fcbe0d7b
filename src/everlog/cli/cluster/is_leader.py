"""``everlog cluster DIR is-leader``: whether the node is the leader now."""

from __future__ import annotations

from dataclasses import dataclass

import click

from everlog.aeron.transport.format.cnc_file import CncFile
from everlog.aeron.transport.format.layouts import ClusterKey
from everlog.cli.cluster.node import NOT_DONE, Node, json_option, require_mark
from everlog.cli.driver.sampling import now_ms, storage_at
from everlog.cli.text import json_line, print_error
from everlog.errors import EverlogError

NODE_ROLE, ELECTION_STATE = 201, 207
"""Type ids of the counters."""
LEADER, ELECTION_CLOSED = 2, 17
ROLES = ("FOLLOWER", "CANDIDATE", "LEADER")


@dataclass(frozen=True, slots=True)
class Role:
    """The values of the node's counters; ``None`` if its driver can't be read, or has no such counter."""

    role: int | None = None
    election_state: int | None = None

    @property
    def is_leader(self) -> bool:
        """Whether the node leads and no election is running."""
        return self.role == LEADER and self.election_state == ELECTION_CLOSED


@click.command
@click.option("--aeron-dir", metavar="FOLDER", help="The driver's folder, if not the one that the mark file names.")
@json_option
@click.pass_obj
def is_leader(node: Node, aeron_dir: str | None, as_json: bool) -> int:
    """Exit with code 0 if the node is the leader by the counters in its media driver's folder, else with 1. Without a
    running driver a node is not the leader; with --aeron-dir the driver need not be running.
    """
    with node.open() as store:
        mark = require_mark(store)
    folder = aeron_dir or mark.body.texts.get("aeron_directory", "")
    role = _read_role(folder, mark.header.cluster_id, must_run=aeron_dir is None)
    if as_json:
        name = None if role.role is None or not 0 <= role.role < len(ROLES) else ROLES[role.role]
        found = {"is_leader": role.is_leader, "role": name, "election_state": role.election_state}
        click.echo(json_line(found))
    return 0 if role.is_leader else NOT_DONE


def _read_role(folder: str, cluster_id: int, *, must_run: bool) -> Role:
    try:
        with CncFile.open(storage_at(folder)) as cnc:
            if must_run and not cnc.is_live(now_ms()):
                print_error(f"no media driver runs in {folder}, so its node is not the leader")
                return Role()
            found = {
                counter.type_id: counter.value
                for counter in cnc.counters()
                if ClusterKey.unpack_from(counter.key).cluster_id == cluster_id
            }
    except EverlogError as error:
        print_error(f"can't read the node's media driver: {error}")
        return Role()
    return Role(found.get(NODE_ROLE), found.get(ELECTION_STATE))
