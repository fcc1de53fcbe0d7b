"""``everlog cluster``: a cluster node's folder, with the verbs and lines of Aeron's ClusterTool. It needs no running
peer; three of its verbs, and the one that undoes them, write."""

from __future__ import annotations

import click

from everlog.cli.cluster.node import Node
from everlog.cli.verb_group import VerbGroup

VERBS = {
    "compare": "Whether several nodes' logs and snapshots agree.",
    "describe": "The mark files of the consensus module and of the services.",
    "describe-latest-cm-snapshot": "What is in the consensus module's latest snapshot.",
    "errors": "The distinct errors of the components and of the media driver.",
    "invalidate-latest-snapshot": "Writes: a start then uses the snapshot before, or the log alone.",
    "is-leader": "Exit code 0 if the node leads now.",
    "list-members": "Who the members and the leader are, as far as the folder knows.",
    "pid": "The process id of the consensus module.",
    "recording-log": "Leadership terms and snapshots.",
    "recovery-plan": "What a start would load and replay.",
    "restore-recording-log": "Writes: undoes a change of the recording log.",
    "seed-recording-log-from-snapshot": "Writes: a start then begins a new log with the latest snapshot.",
    "sort-recording-log": "Writes: puts the recording log's entries in order.",
}


@click.command(cls=VerbGroup, verbs=VERBS, package=__name__)
@click.argument("folder", metavar="DIR")
@click.option("--archive-dir", metavar="FOLDER", help="The node's archive, where it is not beside DIR.")
@click.pass_context
def cluster(ctx: click.Context, folder: str, archive_dir: str | None) -> None:
    """The cluster node whose folder is DIR, with the verbs and lines of Aeron's ClusterTool; the node need not run.
    Nothing is changed but by the verbs that say so: they refuse while the node runs, show with --dry-run what they
    would do, and keep the old file. everlog info DIR says in words how the node is.
    """
    ctx.obj = Node(folder, archive_dir)
