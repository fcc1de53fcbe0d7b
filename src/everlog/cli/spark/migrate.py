"""``everlog spark migrate``: copies records into journals or an Aeron archive, and NATS Streaming channels into
JetStream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from everlog.cli.progress import ProgressLine
from everlog.cli.seconds import Seconds
from everlog.cli.spark.invocation import Running, scan_options, source_options, spark_options
from everlog.cli.text import json_line, print_error, print_table, warn
from everlog.core.family.record import load
from everlog.errors import UsageError
from everlog.stores import FAMILIES

if TYPE_CHECKING:
    from everlog.discovery import FoundStore
    from everlog.pipelines.scan.options import ScanOptions

JETSTREAM = ("nats", "tls", "ws", "wss")
KNOWN = {"stream", "family", "onfault", "includeall", "failondataloss"}
"""Options of the data source that select what is moved; all others are options for opening a store."""
RECORD_HEADERS = ("outcome", "stream", "target", "moved", "bytes", "total", "faults")
CHANNEL_HEADERS = ("outcome", "channel", "stream", "first", "last", "moved", "gaps", "faults", "consumers", "pending")
_JETSTREAM_ONLY = {
    "creds": None,
    "nkey": None,
    "tls_ca": None,
    "tls_cert": None,
    "tls_key": None,
    "domain": None,
    "stream_prefix": "",
    "subject_prefix": "",
    "mapping": (),
    "pending": "redeliver",
    "consumers": True,
    "queue_groups": True,
    "keep_limits": False,
    "replicas": 1,
    "storage": "file",
    "keep_closed": False,
    "patience": 60.0,
}
_RECORDS_ONLY = {
    "notes": None,
    "manifest": "jsonl",
    "segment_bytes": None,
    "compression": None,
    "reserved_value": None,
    "term_length": None,
}
OF_TARGETS = ("segment_bytes", "compression", "term_length", "reserved_value")
"""Options that only some families of targets have."""
_EXPECTED = "stream, family, onFault, includeAll, failOnDataLoss, and the options of the store's family"
_file = click.Path(dir_okay=False, exists=True)


def _targets() -> str:
    return ", ".join(f"{family.name}:FOLDER" for family in FAMILIES.values() if family.migrating is not None)


@click.command
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option(
    "--to",
    "target",
    required=True,
    metavar="TARGET",
    help=f"{_targets()}, or a NATS server: nats://host:4222.",
)
@source_options
@click.option("--dry-run", is_flag=True, help="Print what would be moved; change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with a row for each stream.")
@click.option("--notes", metavar="FOLDER", help="Where progress is recorded. Default: TARGET.everlog-migrate")
@click.option(
    "--manifest",
    type=click.Choice(["jsonl", "parquet"]),
    default="jsonl",
    help="Format of the table of old and new addresses.",
)
@click.option("--segment-bytes", type=int, help="Segment size of new journals or recordings.")
@click.option("--compression", type=click.Choice(["lz4", "null"]), help="Journals: compression of new ones.")
@click.option(
    "--term-length", type=int, help="Archive: term length of new recordings; messages may be up to an eighth of it."
)
@click.option(
    "--reserved-value",
    type=click.Choice(["keep", "time", "none"]),
    help="Archive: keep an archive's value (its default), or store the record's time in ns (others' default).",
)
@click.option("--stream-prefix", default="", help="JetStream: prefix of the streams' names.")
@click.option("--subject-prefix", default="", help="JetStream: prefix of the subjects.")
@click.option(
    "--map",
    "mapping",
    multiple=True,
    metavar="FROM=TO",
    help="JetStream: rename subjects, such as orders.*=shop.orders.*",
)
@click.option(
    "--pending",
    type=click.Choice(["redeliver", "skip"]),
    default="redeliver",
    help="JetStream: messages that were sent to subscribers but not acknowledged.",
)
@click.option("--consumers/--no-consumers", default=True, help="JetStream: move durables and queue groups.")
@click.option(
    "--queue-groups/--no-queue-groups", default=True, help="JetStream: also move queue groups that are not durable."
)
@click.option("--keep-limits", is_flag=True, help="JetStream: limit streams by maxMsgs, maxBytes, maxAge of --option.")
@click.option("--keep-closed", is_flag=True, help="JetStream: keep the streams closed for a later run that adds more.")
@click.option("--replicas", type=int, default=1, help="JetStream: replicas of new streams.")
@click.option(
    "--storage", type=click.Choice(["file", "memory"]), default="file", help="JetStream: storage of new streams."
)
@click.option("--creds", type=_file, help="JetStream: a credentials file.")
@click.option("--nkey", type=_file, help="JetStream: a file with an nkey's seed.")
@click.option("--tls-ca", type=_file, help="JetStream: file of CA certificates.")
@click.option("--tls-cert", type=_file, help="JetStream: the client's certificate.")
@click.option("--tls-key", type=_file, help="JetStream: the client certificate's key.")
@click.option("--domain", help="JetStream: domain.")
@click.option(
    "--patience", type=Seconds(), default=60.0, help="JetStream: give up after this many seconds without progress."
)
@spark_options
def migrate(
    paths: tuple[str, ...],
    target: str,
    option: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    running: Running,
    **given: Any,
) -> int:
    """Copy the records of all stores at or below the paths, each stream in its order, each record once. A repeated run,
    even after a kill, adds what is missing.

    Into a journal for each stream (jlog:FOLDER), into recordings of an archive (aeron-archive:FOLDER), or NATS
    Streaming channels into a NATS server's JetStream: sequences are kept, durables become consumers. User, password and
    token come from NATS_USER, NATS_PASSWORD and NATS_TOKEN.

    --option stream=NAMES selects streams; --option onFault=skip leaves damaged records out and exits with 1.
    """
    from everlog.discovery import find_stores
    from everlog.pipelines.scan.options import parse_options

    _refuse_options(option)
    scan = parse_options(scan_options(paths, option))
    stores = find_stores(scan.paths, scan.family)
    kind, colon, folder = target.partition(":")
    if kind in JETSTREAM:
        _refuse_given(given, _RECORDS_ONLY, "a folder")
        rows = _to_jetstream(stores, scan, target, dry_run, running, given)
    elif colon:
        _refuse_given(given, _JETSTREAM_ONLY, "a NATS server")
        _refuse_others_options(given, kind)
        rows = _to_records(stores, scan, (kind, folder), dry_run, running, given)
    else:
        raise UsageError("--to", found=repr(target), expected=f"{_targets()} or nats://host:4222")
    for row in rows:
        for loss in row.get("losses", ()):
            warn(loss)
    is_ok = not any(row["error"] or row.get("faults") or row.get("losses") for row in rows)
    if as_json:
        click.echo(json_line({"ok": is_ok, "dry_run": dry_run, "streams": rows}))
    else:
        _print(rows, kind in JETSTREAM)
    return 0 if is_ok else 1


def _refuse_options(given: Sequence[str]) -> None:
    from everlog.pipelines.scan.options import FAMILY_OPTIONS

    known = KNOWN | {name.lower() for name in FAMILY_OPTIONS}
    for text in given:
        name = text.partition("=")[0].strip()
        if name.lower() not in known | {"encryptionkey"}:  # has an error message of its own
            raise UsageError(
                "--option", found=name, expected=_EXPECTED, message=f"--option {name} is unknown; known: {_EXPECTED}"
            )


def _refuse_given(given: dict[str, Any], defaults: dict[str, Any], expected: str) -> None:
    for name, default in defaults.items():
        if given[name] != default:
            flag = f"--{name.replace('_', '-')}"
            message = f"{flag} needs {expected} as the target"
            raise UsageError(flag, found="another target", expected=f"left out, or {expected}", message=message)


def _refuse_others_options(given: dict[str, Any], kind: str) -> None:
    """Raise :class:`UsageError` for an option that only targets of another family have."""
    name = FAMILIES[kind].migrating if kind in FAMILIES else None
    taken = frozenset() if name is None else load(name).options
    for option in OF_TARGETS:
        if name is not None and option not in taken and given[option] is not None:
            flag = f"--{option.replace('_', '-')}"
            message = f"{flag} does not apply to {FAMILIES[kind].title}s"
            raise UsageError(flag, found=f"{kind} as the target", expected="left out for this target", message=message)


def _to_jetstream(
    stores: list[FoundStore], scan: ScanOptions, url: str, dry_run: bool, running: Running, given: dict[str, Any]
) -> list[dict[str, Any]]:
    from everlog.pipelines.migrate.connection import Connection
    from everlog.pipelines.migrate.move import StreamSettings
    from everlog.pipelines.migrate.naming import SubjectMapping
    from everlog.pipelines.scan.columns import family_options
    from everlog.spark.jobs.jetstream import (
        JetStreamTarget,
        migrate_to_jetstream,
        plan_channels,
        rehearse,
    )

    target = JetStreamTarget(
        connection=Connection(
            servers=tuple(part.strip() for part in url.split(",")),
            creds_file=given["creds"],
            nkey_file=given["nkey"],
            ca_file=given["tls_ca"],
            cert_file=given["tls_cert"],
            key_file=given["tls_key"],
            domain=given["domain"],
            patience_s=given["patience"],
        ),
        settings=StreamSettings(
            replicas=given["replicas"],
            storage=given["storage"],
            pending=given["pending"],
            finish=not given["keep_closed"],
        ),
        stream_prefix=given["stream_prefix"],
        subject_prefix=given["subject_prefix"],
        mappings=tuple(SubjectMapping.parse(text) for text in given["mapping"]),
        queue_groups=given["queue_groups"],
        consumers=given["consumers"],
        keep_limits=given["keep_limits"],
    )
    if not scan.fail_on_data_loss:
        raise UsageError(
            "option failOnDataLoss",
            found="false for a NATS server as the target",
            expected="left out, or a folder as the target",
            message="--option failOnDataLoss=false needs a folder as the target, not a NATS server",
        )
    options = family_options(stores, scan)
    moves = [
        move
        for store in stores
        for move in plan_channels(
            store, target, streams=scan.streams, options=options[store.family], on_fault=scan.on_fault
        )
    ]
    if dry_run:
        return rehearse(moves)
    with running.session("migrate") as (spark, progress):
        return migrate_to_jetstream(spark, moves, progress=progress)


def _to_records(
    stores: list[FoundStore],
    scan: ScanOptions,
    place: tuple[str, str],
    dry_run: bool,
    running: Running,
    given: dict[str, Any],
) -> list[dict[str, Any]]:
    from everlog.core.family.migrating import DEFAULT_TERM_LENGTH, TargetOptions
    from everlog.pipelines.scan.columns import family_options
    from everlog.spark.jobs.migrate import RecordTarget, migrate_records, plan_streams, rehearse

    kind, folder = place
    target = RecordTarget(
        kind=kind,
        folder=folder,
        notes=given["notes"],
        manifest=given["manifest"],
        options=TargetOptions(
            segment_bytes=given["segment_bytes"],
            compression=given["compression"],
            reserved_value=given["reserved_value"],
            term_length=DEFAULT_TERM_LENGTH if given["term_length"] is None else given["term_length"],
        ),
    )
    moves = plan_streams(
        stores,
        target,
        streams=scan.streams,
        options=family_options(stores, scan),
        on_fault=scan.on_fault,
        include_all=scan.include_all,
        fail_on_data_loss=scan.fail_on_data_loss,
        dry_run=dry_run,
    )
    if dry_run:
        with ProgressLine() as progress:
            return rehearse(moves, target, progress)
    with running.session("migrate") as (spark, progress_line):
        return migrate_records(spark, moves, target, progress=progress_line)


def _print(rows: list[dict[str, Any]], is_jetstream: bool) -> None:
    if is_jetstream:
        print_table(CHANNEL_HEADERS, [_channel_cells(row) for row in rows], frozenset(range(3, len(CHANNEL_HEADERS))))
        for row in rows:
            for consumer in row["consumers"]:
                pending = f"{len(consumer['pending'])} pending"
                if consumer.get("pending_gone"):
                    pending += f", {len(consumer['pending_gone'])} of them no longer in the store"
                click.echo(
                    f"{row['stream']}: {consumer['kind']} {consumer['durable']} -> consumer {consumer['name']} from "
                    f"{consumer['start']}, {pending}: {consumer['outcome']}"
                )
            for sub in row["not_moved"]:
                click.echo(f"{row['stream']}: {sub['kind']} subscription of {sub['client']}: not moved")
    else:
        names = ("outcome", "stream", "target", "moved", "moved_bytes", "total", "faults")
        cells = [[_cell(row[name]) for name in names] for row in rows]
        print_table(RECORD_HEADERS, cells, frozenset(range(3, len(RECORD_HEADERS))))
    for row in rows:
        if row["error"]:
            print_error(row["error"])


def _channel_cells(row: dict[str, Any]) -> list[str]:
    pending = sum(len(consumer["pending"]) for consumer in row["consumers"])
    names = ("outcome", "channel", "stream", "first", "last", "moved", "gaps", "faults")
    return [*(_cell(row.get(name)) for name in names), str(len(row["consumers"])), str(pending)]


def _cell(value: object) -> str:
    return "-" if value is None else str(value)
