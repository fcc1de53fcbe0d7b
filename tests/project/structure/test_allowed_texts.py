"""Options with a few allowed texts: the annotation, which a type checker reads, has the texts that are checked."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click
import pytest

from everlog import stores
from everlog.aeron.archive import Archive
from everlog.aeron.archive import store as archive_store
from everlog.aeron.archive.format import catalog_bytes
from everlog.aeron.archive.opening import create, open_archive
from everlog.aeron.archive.recording.options import ArchiveOptions, DurabilityName, OptionKeywords
from everlog.aeron.archive.repair.recovery import plan_recovery, recover
from everlog.aeron.archive.tool.checksum import plan_checksum
from everlog.aeron.archive.writing.catalog_writer import CatalogOptions
from everlog.aeron.archive.writing.stream_parameters import StreamKeywords, StreamOptions
from everlog.aeron.cluster import store as cluster_store
from everlog.aeron.family_options import CHECKSUM, CHECKSUM_KINDS, READ_CHECKSUMS
from everlog.aeron.frames.framing import Framing
from everlog.aeron.frames.framing_inputs import CHECKSUMS
from everlog.cli.spark.compare import compare as compare_command
from everlog.cli.spark.export import export as export_command
from everlog.cli.spark.migrate import migrate as migrate_command
from everlog.core.family.migrating import CompressionName, ReservedValue, TargetOptions
from everlog.core.files.durability import Durability
from everlog.errors import UsageError
from everlog.jlog.options import Compression
from everlog.pipelines.choices import EXPORT_FORMATS, ComparedBy, ExportFormat
from everlog.pipelines.export.files import SUFFIXES
from everlog.pipelines.migrate.move import PendingMode, StorageKind, StreamSettings
from everlog.pipelines.scan.options import OnFault, ScanOptions, parse_options
from everlog.runtime.idle import STRATEGIES, idle_strategy
from everlog.sbe import Schema

STREAM: dict[str, Any] = {"initial_term_id": 0, "term_length": 1 << 16, "mtu_length": 1408}
STREAM |= {"session_id": 1, "stream_id": 1}


def literals(hint: Any) -> tuple[str, ...]:
    """The allowed texts of an annotation."""
    parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return tuple(value for part in parts if get_origin(part) is Literal for value in get_args(part))


ANNOTATED: list[tuple[Any, str, Iterable[str]]] = [
    (archive_store.Options, "checksum", READ_CHECKSUMS),
    (cluster_store.Options, "checksum", READ_CHECKSUMS),
    (stores.StoreOptions, "checksum", READ_CHECKSUMS),
    (recover, "checksum", READ_CHECKSUMS),
    (plan_recovery, "checksum", READ_CHECKSUMS),
    (plan_checksum, "kind", CHECKSUM_KINDS),
    (CatalogOptions, "checksum", CHECKSUM_KINDS),
    (ArchiveOptions, "checksum", CHECKSUM_KINDS),
    (ArchiveOptions, "durability", (Durability.WRITTEN, Durability.SYNCED)),
    (Framing, "checksum", CHECKSUMS),
    (ScanOptions, "on_fault", ("fail", "skip")),
    (StreamSettings, "storage", ("file", "memory")),
    (StreamSettings, "pending", ("redeliver", "skip")),
    (TargetOptions, "reserved_value", ("keep", "time", "none")),
    (TargetOptions, "compression", get_args(Compression)),
    (idle_strategy, "name", (*STRATEGIES, "controllable")),
]


@pytest.mark.parametrize(("call", "name", "allowed"), ANNOTATED, ids=lambda part: getattr(part, "__qualname__", None))
def test_an_annotation_has_the_allowed_texts(call: Any, name: str, allowed: Iterable[str]) -> None:
    assert literals(get_type_hints(call, localns={"Schema": Schema})[name]) == tuple(allowed)


def test_spark_functions_are_annotated_with_the_aliases() -> None:
    pytest.importorskip("pyspark")
    from everlog import spark
    from everlog.spark.jobs import compare, export, jetstream, migrate

    for call, name, alias in (
        (spark.compare, "by", "ComparedBy"),
        (compare.compare, "by", "ComparedBy"),
        (spark.export, "format", "ExportFormat"),
        (export.Export, "kind", "ExportFormat"),
        (jetstream.plan_channels, "on_fault", "OnFault"),
        (migrate.plan_streams, "on_fault", "OnFault"),
        (migrate.RecordTarget, "manifest", "ManifestFormat"),
    ):
        assert inspect.signature(call).parameters[name].annotation == alias
    assert get_args(migrate.ManifestFormat) == ("jsonl", "parquet")


CHECKED: list[tuple[str, Callable[[Any], object], Iterable[str]]] = [
    ("checksum", lambda text: archive_store.Options(checksum=text), READ_CHECKSUMS),
    ("checksum", lambda text: cluster_store.Options(checksum=text), READ_CHECKSUMS),
    ("checksum", lambda text: CatalogOptions(checksum=text), CHECKSUM_KINDS),
    ("checksum", lambda text: ArchiveOptions(checksum=text), CHECKSUM_KINDS),
    ("checksum", lambda text: Framing(checksum=text, **STREAM), CHECKSUM_KINDS),
    ("checksum", lambda text: CHECKSUM.kind.read("checksum", text), READ_CHECKSUMS),
    ("durability", lambda text: ArchiveOptions(durability=text), get_args(DurabilityName)),
    ("onFault", lambda text: parse_options({"path": "x", "onFault": text}), get_args(OnFault)),
    ("storage", lambda text: StreamSettings(storage=text), get_args(StorageKind)),
    ("pending", lambda text: StreamSettings(pending=text), get_args(PendingMode)),
    ("reserved value", lambda text: TargetOptions(reserved_value=text), get_args(ReservedValue)),
    ("idle strategy", lambda text: idle_strategy(text), tuple(STRATEGIES)),
]


@pytest.mark.parametrize(("name", "use", "allowed"), CHECKED)
def test_each_allowed_text_is_taken_and_a_misspelt_one_is_refused(
    name: str, use: Callable[[Any], object], allowed: Iterable[str]
) -> None:
    texts = [f"'{use(text) and text}'" for text in allowed]
    with pytest.raises(UsageError) as refused:
        use("misspelt")
    assert str(refused.value) == f"{name} must be {', '.join(texts[:-1])} or {texts[-1]}, not 'misspelt'"


@pytest.mark.parametrize(
    ("command", "name", "allowed"),
    [
        (compare_command, "by", get_args(ComparedBy)),
        (export_command, "kind", get_args(ExportFormat)),
        (migrate_command, "storage", get_args(StorageKind)),
        (migrate_command, "pending", get_args(PendingMode)),
        (migrate_command, "reserved_value", get_args(ReservedValue)),
        (migrate_command, "manifest", ("jsonl", "parquet")),
        (migrate_command, "compression", ("lz4", "null")),
    ],
)
def test_the_command_line_takes_the_same_texts(command: click.Command, name: str, allowed: tuple[str, ...]) -> None:
    (option,) = (option for option in command.params if option.name == name)
    assert isinstance(option.type, click.Choice)
    assert tuple(option.type.choices) == allowed


def test_tables_have_an_entry_for_each_text() -> None:
    assert tuple(CHECKSUMS) == CHECKSUM_KINDS
    assert ("none", *catalog_bytes.CHECKSUMS) == CHECKSUM_KINDS
    assert ("auto", *CHECKSUM_KINDS) == READ_CHECKSUMS
    assert tuple(SUFFIXES) == EXPORT_FORMATS == get_args(ExportFormat)
    assert get_args(CompressionName) == get_args(Compression)


@pytest.mark.parametrize(("keywords", "options"), [(OptionKeywords, ArchiveOptions), (StreamKeywords, StreamOptions)])
def test_keywords_are_the_options_with_their_types(keywords: Any, options: Any) -> None:
    assert {field.name: field.type for field in fields(options)} == {
        name: kind.__forward_arg__ for name, kind in keywords.__annotations__.items()
    }


@pytest.mark.parametrize(
    ("call", "annotation"),
    [
        (create, "Unpack[OptionKeywords]"),
        (open_archive, "Unpack[OptionKeywords]"),
        (Archive.start_recording, "Unpack[StreamKeywords]"),
        (Archive.extend_recording, "Unpack[StreamKeywords]"),
    ],
)
def test_further_keywords_are_typed(call: Any, annotation: str) -> None:
    *_, last = inspect.signature(call).parameters.values()
    assert (last.kind, last.annotation) == (inspect.Parameter.VAR_KEYWORD, annotation)
