"""``everlog spark``: pipelines over whole stores, on Spark."""

from __future__ import annotations

import click

from everlog.cli.verb_group import VerbGroup

VERBS = {
    "compare": "Whether replicas hold the same records; the first difference.",
    "export": "Export records to Parquet, Arrow, JSON lines or a Delta table; again and again.",
    "migrate": "Move records to a store of ours, or channels of NATS Streaming to JetStream.",
    "stats": "Rates, sizes, gaps and bursts of each stream and minute; a page with pictures.",
    "verify": "Check many stores at once; one report.",
}


@click.command(cls=VerbGroup, verbs=VERBS, package=__name__)
def spark() -> None:
    """Pipelines over one or many stores of all families, on Spark (extra spark): a local session with all cores, or the
    cluster that --master names.

    Where an option NAME=VALUE is taken, NAME is one of the data source's, as in docs/spark.md: --option stream=3
    --option checksum=crc32.
    """
