"""``everlog spark``: pipelines over whole stores, on Spark."""

from __future__ import annotations

import click

from everlog.cli.verb_group import VerbGroup

VERBS = {
    "compare": "Compare replicas' records and show the first difference.",
    "export": "Export records to Parquet, Arrow, JSON lines or a Delta table, incrementally.",
    "migrate": "Copy records to a JLog or Aeron store, or NATS Streaming channels to JetStream.",
    "stats": "Rates, sizes, gaps and bursts of each stream and minute; a page with charts.",
    "verify": "Check many stores in parallel; print one report.",
}


@click.command(cls=VerbGroup, verbs=VERBS, package=__name__)
def spark() -> None:
    """Pipelines over one or many stores of all families, on Spark (extra spark): a local session on all cores, or the
    cluster given by --master.

    Where an option takes NAME=VALUE, NAME is an option of the data source (see docs/spark.md): --option stream=3
    --option checksum=crc32.
    """
