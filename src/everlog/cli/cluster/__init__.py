"""``everlog cluster``: a look at a cluster node's folder, as Aeron's ClusterTool gives it. It only reads, and needs no
running peer."""

from __future__ import annotations

import click

from everlog.cli.cluster.node import Node
from everlog.cli.verb_group import VerbGroup

VERBS = {
    "compare": "Whether several nodes' logs and snapshots agree.",
    "describe": "The mark files of the consensus module and of the services.",
    "describe-latest-cm-snapshot": "What is in the consensus module's latest snapshot.",
    "errors": "The distinct errors of the components and of the media driver.",
    "is-leader": "Exit code 0 if the node leads now.",
    "list-members": "Who the members and the leader are, as far as the folder knows.",
    "pid": "The process id of the consensus module.",
    "recording-log": "Leadership terms and snapshots.",
    "recovery-plan": "What a start would load and replay.",
}


@click.command(cls=VerbGroup, verbs=VERBS, package=__name__)
@click.argument("folder", metavar="DIR")
@click.option("--archive-dir", metavar="FOLDER", help="The node's archive, where it is not beside DIR.")
@click.pass_context
def cluster(ctx: click.Context, folder: str, archive_dir: str | None) -> None:
    """Look at the cluster node whose folder is DIR, with the verbs and lines of Aeron's ClusterTool. Nothing is
    changed, and the node need not run. everlog info DIR says in words how it is.
    """
    ctx.obj = Node(folder, archive_dir)
