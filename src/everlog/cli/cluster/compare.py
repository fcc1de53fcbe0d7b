"""``everlog cluster DIR compare``: compares the folders of several members."""

from __future__ import annotations

from contextlib import ExitStack

import click

from everlog.aeron.cluster.tool.replicas import compare_nodes
from everlog.cli.cluster.node import Node, json_option, open_node
from everlog.cli.text import json_line
from everlog.cli.verify import print_fault, print_summary


@click.command
@click.argument("others", metavar="OTHER...", nargs=-1, required=True)
@json_option
@click.pass_obj
def compare(node: Node, others: tuple[str, ...], as_json: bool) -> int:
    """Compare the folders of other members with this one: terms, logs message by message, snapshots. Each folder needs
    its archive next to it or inside it. Exit code 1 if two members contradict each other; a member that lags is only a
    note.
    """
    with ExitStack() as stack:
        stores = [stack.enter_context(node.open())]
        stores += [stack.enter_context(open_node(other)) for other in others]
        report = compare_nodes(stores)
    if as_json:
        click.echo(json_line(report.to_dict()))
    else:
        for fault in report.faults:
            print_fault(fault)
        print_summary(report)
    return report.exit_code
