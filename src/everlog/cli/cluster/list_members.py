"""``everlog cluster DIR list-members``: prints the leader and the known members."""

from __future__ import annotations

from typing import Any

import click

from everlog.aeron.cluster.folder.members import Members, read_members
from everlog.cli.cluster.node import Node, json_option, require_mark
from everlog.cli.text import json_line, print_error, printable


@click.command
@json_option
@click.pass_obj
def list_members(node: Node, as_json: bool) -> None:
    """Print the leader of the latest term and the members that the log and snapshots name: this node, each leader of a
    term, and, in folders of older versions, all members with their endpoints.
    """
    with node.open() as store:
        members = read_members(store.folder, require_mark(store).header.member_id)
    if as_json:
        click.echo(json_line(members.to_dict()))
        return
    shown = ", ".join(_member(members, member_id) for member_id in sorted(members.endpoints))
    leader = -1 if members.leader_member_id is None else members.leader_member_id
    click.echo(f"leaderMemberId={leader}, memberId={members.member_id}, activeMembers=[{shown}]")
    if not members.is_complete:
        print_error("note: the log and snapshots show neither members that never led nor endpoints")


def _member(members: Members, member_id: int) -> str:
    fields: dict[str, Any] = {
        "id": member_id,
        "isLeader": "true" if member_id == members.leader_member_id else "false",
    }
    endpoints = members.endpoints[member_id]
    if endpoints:
        fields["endpoints"] = f"'{printable(endpoints)}'"
    return f"ClusterMember{{{', '.join(f'{key}={value}' for key, value in fields.items())}}}"
