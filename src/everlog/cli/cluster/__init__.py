"""``everlog cluster``: inspects a cluster node's folder, with the verbs and the output of Aeron's ClusterTool. It needs
no running cluster. Three verbs write, and a fourth undoes them."""

from __future__ import annotations

import click

from everlog.cli.cluster.node import Node
from everlog.cli.verb_group import VerbGroup

VERBS = {
    "compare": "Compare the logs and snapshots of several nodes.",
    "describe": "Print the mark files of the consensus module and the services.",
    "describe-latest-cm-snapshot": "Print the content of the consensus module's latest snapshot.",
    "errors": "Print the distinct errors of the components and the media driver.",
    "invalidate-latest-snapshot": "Write: mark the latest snapshot as invalid.",
    "is-leader": "Exit with code 0 if the node is the leader now.",
    "list-members": "Print the leader and the members that the folder knows.",
    "pid": "Print the consensus module's process id.",
    "recording-log": "Print leadership terms and snapshots.",
    "recovery-plan": "Print what the node would load and replay when it starts.",
    "restore-recording-log": "Write: undo a change of the recording log.",
    "seed-recording-log-from-snapshot": "Write: make a new recording log that starts from the latest snapshot.",
    "sort-recording-log": "Write: sort the recording log's entries.",
}
"""Maps a verb to its line in ``--help``."""


@click.command(cls=VerbGroup, verbs=VERBS, package=__name__)
@click.argument("folder", metavar="DIR")
@click.option("--archive-dir", metavar="FOLDER", help="The node's archive, if not next to DIR or inside it.")
@click.pass_context
def cluster(ctx: click.Context, folder: str, archive_dir: str | None) -> None:
    """Inspect the cluster node in the folder DIR, with the verbs and the output of Aeron's ClusterTool. The node may be
    running or not.

    Only the verbs marked Write change anything. They refuse while the node is running, show their plan with --dry-run,
    and keep the old file. everlog info DIR describes the node's state.
    """
    ctx.obj = Node(folder, archive_dir)
