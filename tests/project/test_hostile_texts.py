"""Texts from outside: options, channels, properties, schemas, JSON that is read back. Whatever they hold, the parser
answers with a value or with one of everlog's errors, whose text every stream takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everlog.aeron.archive.recording.options import ArchiveOptions
from everlog.aeron.archive.tool.undo import plan_undo
from everlog.aeron.archive.writing.stream_parameters import StreamOptions, parameters_of
from everlog.aeron.channel_uri import ChannelUri
from everlog.aeron.cluster.folder.members import parse_members
from everlog.aeron.cluster.tool.recording_log_plans import _made_by
from everlog.aeron.transport.driver.commands import uri_values
from everlog.aeron.transport.driver.commands.command_errors import CommandRefused
from everlog.aeron.transport.driver.commands.subscription_params import subscription_params
from everlog.aeron.transport.driver.settings import properties
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.aeron.transport.media.interfaces import parse_interface
from everlog.aeron.transport.media.name_resolver import TableNameResolver
from everlog.aeron.transport.media.udp_channel import UdpChannel
from everlog.cli.app import cli
from everlog.cli.archive.purge import parse_time
from everlog.cli.monitoring.metrics import parse_listen
from everlog.cli.read import unescaped
from everlog.cli.spark.invocation import size_of
from everlog.cli.spark.stats import bucket_width
from everlog.core.files.storage import LocalStorage
from everlog.core.files.writable import LocalWritableStorage, make_folder
from everlog.core.json_text import parse_json
from everlog.core.options import fill
from everlog.core.store import as_level
from everlog.discovery import find_stores
from everlog.errors import EverlogError
from everlog.nats_streaming.options import NatsStreamingOptions
from everlog.nats_streaming.reading.encryption import load_master_key
from everlog.pipelines.append import notes
from everlog.pipelines.append.options import COMMON, appendable_families, appending_of
from everlog.pipelines.export import manifest as export_manifest
from everlog.pipelines.follow.offsets import from_json
from everlog.pipelines.migrate import notes as migrate_notes
from everlog.pipelines.migrate.connection import Connection
from everlog.pipelines.migrate.naming import SubjectMapping
from everlog.pipelines.scan import options as spark_options
from everlog.sbe import SbeColumns, parse_schema
from everlog.spark.streaming import progress_of
from everlog.stores import FAMILIES, open_store, store_class

NAMES = TableNameResolver({})
DIGITS = ("9" * 19, "9" * 20, "9" * 400, "9" * 5000, "-" + "9" * 400, "0." + "9" * 5000, "0x" + "f" * 5000, "1e400")
UNITS = ("", "h", "ms", "s", "m", "k", "g", "t", "ns", "kb", "d", ":1", "/9", "Z")
HOSTILE = [
    *("", " ", "\0", "a\0b", "\ud800", "\udcff", "\u0663", "\u00b2", "1_0", "+1", "-0", "nan", "inf", "null", "true"),
    *("[" * 100_000, '{"a":' * 50_000, "(" * 10_000, "*" * 2_000, "://:" * 10_000, "a," * 1_000, "/" * 5_000),
    *('"\\ud800"', '{"\\ud800": {"a": "\\ud800"}}', '["a\\u0000b"]', '{"by": [1e999], "values": {"b": "count"}}'),
    *('{"by": ["a"], "values": {"\\ud800": "count"}}', '{"version": 1e999, "stores": {}}', "0001-01-01T00:00:00+23:59"),
    *(
        "2024-05-01T10:00:00." + "1" * 5_000,
        "9999-12-31T23:59:59-23:59",
        "nats://[::1",
        "nats://h:99999",
        "[::1",
        "a=b",
    ),
    *(digits + unit for digits in DIGITS for unit in UNITS),
]
NUMBERS = st.builds(
    lambda sign, digits, point, unit: f"{sign}{digits}{point}{unit}",
    st.sampled_from(("", "-", "+", "0x", "1e")),
    st.integers(0, 10**40).map(str) | st.sampled_from(DIGITS),
    st.sampled_from(("", ".", ".5", "." + "0" * 30 + "1")),
    st.sampled_from(UNITS),
)
ANY = st.text(st.characters() | st.sampled_from("\0\ud800\udcff\u00b2\u0663[]{}():=,|/.*?\\'\"@%<&"), max_size=40)
TEXTS = NUMBERS | ANY | st.builds(lambda text, count: text * count, ANY, st.integers(1, 500)) | st.sampled_from(HOSTILE)

Parser = Callable[[str], object]


def _spark(folder: str) -> Iterator[tuple[str, Parser]]:
    for name in spark_options.OPTION_NAMES:
        start = {} if name in ("path", "paths") else {"path": folder}
        yield f"spark {name}", lambda text, start=start, name=name: spark_options.parse_options({**start, name: text})
    own = {
        family: {option.spark: ("family", option.key, option.kind.read) for option in appending_of(family).options}
        for family in appendable_families()
    }
    for family, table in {"": COMMON, **own}.items():
        for name, (_, _, read) in table.items():
            yield f"spark write {family} {name}", lambda text, read=read, name=name: read(name, text)


def _options() -> Iterator[tuple[str, Parser]]:
    kinds = {store_class(family).options_class for family in FAMILIES} | {ArchiveOptions}
    for kind in kinds:
        for field in fields(kind):
            if "str" in str(field.type):
                yield f"{kind.__name__} {field.name}", lambda text, kind=kind, name=field.name: fill(kind, {name: text})
    for name in ("encryption_key", "encryption_key_file", "encryption_key_env"):
        yield f"key {name}", lambda text, name=name: load_master_key(NatsStreamingOptions(**{name: text}))


def _channels() -> Iterator[tuple[str, Parser]]:
    keys = (
        "endpoint",
        "control",
        "interface",
        "tags",
        "session-id",
        "ttl",
        "alias",
        "fc",
        "gtag",
        "so-sndbuf",
        "rcv-wnd",
    )
    keys += ("media-rcv-ts-offset", "nak-delay", "linger", "term-length", "mtu", "init-term-id", "term-offset", "group")
    keys += ("untethered-resting-timeout", "response-correlation-id", "response-endpoint", "cc", "sparse")
    yield "channel", ChannelUri.parse
    yield "interface", lambda text: parse_interface(text, NAMES)
    for key in keys:

        def channel(text: str, key: str = key) -> str:
            start = "" if key == "endpoint" else "endpoint=127.0.0.1:20121|"
            return f"aeron:udp?{start}{key}={text[:3900]}"

        def asked(text: str, key: str = key, channel: Callable[[str], str] = channel) -> None:
            uri = ChannelUri.parse(channel(text))
            subscription_params(uri, Configuration())
            uri_values.size(uri, key)

        def lasting(text: str, key: str = key, channel: Callable[[str], str] = channel) -> None:
            uri_values.duration_ns(ChannelUri.parse(channel(text)), key, 0)

        yield f"udp {key}", lambda text, channel=channel: UdpChannel.parse(channel(text), NAMES)
        yield f"recording {key}", lambda text, channel=channel: parameters_of(channel(text), 1001, StreamOptions())
        yield f"driver {key}", asked
        yield f"driver duration {key}", lasting


def _properties() -> Iterator[tuple[str, Parser]]:
    yield "property", lambda text: properties.load(given=[text])
    by_parser = {setting.metadata["parse"]: setting.metadata["names"][0] for setting in fields(Configuration)}
    for name in by_parser.values():
        variable = properties.environment_name(name)
        yield f"property {name}", lambda text, name=name: properties.load(given=[f"{name}={text}"])
        yield f"{variable}", lambda text, variable=variable: properties.load(environment={variable: text})


SCHEMA = """<messageSchema package="p" id="1" version="{version}" byteOrder="{order}"><types>
<composite name="messageHeader"><type name="blockLength" primitiveType="uint16"/><type name="templateId"
 primitiveType="uint16"/><type name="schemaId" primitiveType="uint16"/><type name="version" primitiveType="uint16"/>
</composite><composite name="groupSizeEncoding"><type name="blockLength" primitiveType="uint16"/><type
 name="numInGroup" primitiveType="uint16"/></composite><composite name="varData"><type name="length"
 primitiveType="uint32" maxValue="{most}"/><type name="varData" primitiveType="uint8" length="0"
 characterEncoding="{encoding}"/></composite><type name="t" primitiveType="{primitive}" length="{length}"
 nullValue="{null}" presence="{presence}" sinceVersion="{since}">{constant}</type><enum name="e"
 encodingType="{kind}"><validValue name="A">{value}</validValue></enum><set name="s" encodingType="uint8"><choice
 name="A">{choice}</choice></set></types><message name="m" id="{id}" blockLength="{block}"><field name="f" id="1"
 type="t" offset="{offset}"/><field name="g" id="2" type="e"/><group name="h" id="3" blockLength="{group}"><field
 name="i" id="4" type="s"/></group><data name="d" id="5" type="varData"/></message></messageSchema>"""
GOOD = {
    "version": "0",
    "order": "littleEndian",
    "most": "100",
    "encoding": "UTF-8",
    "primitive": "uint32",
    "length": "1",
}
GOOD |= {
    "null": "5",
    "presence": "optional",
    "since": "0",
    "constant": "",
    "kind": "uint8",
    "value": "1",
    "choice": "0",
}
GOOD |= {"id": "1", "block": "20", "offset": "0", "group": "1"}


def schema_with(**changed: str) -> object:
    given = {name: escape(text, {'"': "&quot;"}) for name, text in changed.items()}
    return SbeColumns(parse_schema(SCHEMA.format(**GOOD | given)), "m", lambda warning: None)


def _schemas() -> Iterator[tuple[str, Parser]]:
    schema_with()
    yield "schema", parse_schema
    yield "schema, deep", lambda text: parse_schema(f"<messageSchema>{'<types>' * 50_000}{text}")
    for name in GOOD:
        yield f"schema {name}", lambda text, name=name: schema_with(**{name: text})


def _others(folder: str) -> Iterator[tuple[str, Parser]]:
    yield "level", as_level
    yield "store", lambda text: open_store(f"{folder}/{text}")
    yield "storage", lambda text: LocalStorage(folder).exists(text)
    yield "storage to write", LocalWritableStorage
    yield "folder to make", lambda text: make_folder(f"{folder}/made/{text.strip('/.')}")
    yield "stores to find", lambda text: find_stores((f"{folder}/{text}",))
    yield "members", parse_members
    yield "subject mapping", SubjectMapping.parse
    yield "server", lambda text: Connection(servers=(text,))
    yield "query progress", lambda text: progress_of({"sources": [{"endOffset": text, "latestOffset": text}]})
    yield "--before", parse_time
    yield "--listen", parse_listen
    yield "--bucket", bucket_width
    yield "size", lambda text: size_of("--size", text)


def refused_or_done(parse: Parser, text: str) -> None:
    """Only the documented errors may come; and a message that can be printed, on a few screens at most."""
    try:
        parse(text)
        message = ""
    except (EverlogError, CommandRefused) as error:
        message = str(error)
    assert len(message.encode()) < 20_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("texts"))


GROUPS: dict[str, Callable[[str], Iterator[tuple[str, Parser]]]] = {
    "spark": _spark,
    "options": lambda folder: _options(),
    "channels": lambda folder: _channels(),
    "properties": lambda folder: _properties(),
    "schemas": lambda folder: _schemas(),
    "others": _others,
}


@pytest.mark.long
@pytest.mark.parametrize("group", GROUPS)
def test_a_text_that_was_made_to_break_parsers_breaks_none(folder: str, group: str) -> None:
    for name, parse in GROUPS[group](folder):
        for text in HOSTILE:
            try:
                refused_or_done(parse, text)
            except Exception as error:
                raise AssertionError(f"{name}: {text[:40]!r}, {len(text)} characters") from error


@settings(max_examples=300)
@given(data=st.data(), text=TEXTS)
def test_no_text_breaks_a_parser(folder: str, data: st.DataObject, text: str) -> None:
    known = {name: parse for group in GROUPS.values() for name, parse in group(folder)}
    refused_or_done(known[data.draw(st.sampled_from(sorted(known)))], text)


def commands(command: click.Command, path: str = "everlog") -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            below = command.get_command(click.Context(command), name)
            assert below is not None
            yield from commands(below, f"{path} {name}")
    else:
        yield path, command


ARGUMENTS = [text for text in HOSTILE if "\0" not in text and "\ud800" not in text]
"""What a command line can hold."""


@pytest.mark.long
def test_no_argument_breaks_the_command_line() -> None:
    seen = set()
    for path, command in commands(cli):
        for parameter in command.params:
            kind = type(parameter.type), str(parameter.type), parameter.callback
            if kind in seen:
                continue
            seen.add(kind)
            for text in ARGUMENTS:
                try:
                    parameter.type.convert(text, parameter, click.Context(command))
                except (click.UsageError, EverlogError) as error:
                    str(error).encode()
                except Exception as error:
                    raise AssertionError(f"{path}: {parameter.name}: {text[:40]!r}") from error
    for text in ARGUMENTS:
        unescaped(text)


KEPT: dict[str, tuple[Any, Callable[[Path], object]]] = {
    "note of a write": (
        {
            "version": 1,
            "query": "q",
            "target": "t",
            "done": 3,
            "plan": {"batch": 4, "appended": 1, "most": 9, "place": {"a": 1}, "time_ns": 5, "parts": []},
        },
        lambda folder: list(notes.read_notes(LocalWritableStorage(folder))),
    ),
    "moves": (
        {
            "version": 1,
            "kind": "jlog",
            "moves": [{"store": "s", "family": "f", "stream": "t", "name": "n", "token": "k", "number": 1}],
        },
        lambda folder: migrate_notes.assign(str(folder), "jlog", [], keep=False),
    ),
    "note of a migration": (
        {"version": 1, "pending": []},
        lambda folder: migrate_notes.read_note(LocalWritableStorage(folder), "q.note"),
    ),
    "manifest": (
        {
            "format": "everlog-export",
            "version": 1,
            "generation": 1,
            "kind": "parquet",
            "query": {},
            "columns": [["a", "b"]],
            "placing": {"staging": "", "files": []},
            "streams": [
                {
                    "store": "s",
                    "stream": "t",
                    "family": "f",
                    "ranges": [[0, 1]],
                    "fault_count": 0,
                    "resume": 1,
                    "files": [{"path": "p", "rows": 1, "byte_count": 1, "crc32": 1, "first": "0", "last": "1"}],
                    "last": {"address": 1},
                }
            ],
        },
        lambda folder: export_manifest.decode((folder / "q.note").read_bytes(), "manifest"),
    ),
    "plan of a tool": (
        {"family": "aeron-archive", "steps": [{"undo": {"kind": "rename"}, "file": "f", "before": "b", "after": "a"}]},
        lambda folder: plan_undo(LocalWritableStorage(folder), LocalStorage(folder)),
    ),
    "plan of a cluster's change": (
        {"steps": [{"file": "recording.log", "old_sha256": "0", "new_sha256": "1"}]},
        lambda folder: _made_by(LocalStorage(folder)),
    ),
    "offset": (
        {"version": 1, "stores": {"s": {"t": ["1", "2"]}}},
        lambda folder: progress_of({"sources": [{"endOffset": (folder / "q.note").read_text(errors="replace")}]}),
    ),
}
FILES = {"moves": "moves.json", "plan of a tool": "plan.json", "plan of a cluster's change": "plan.json"}
VALUES = [
    *(
        "null",
        "true",
        "1",
        "-1",
        "1.5",
        "1e999",
        "-1e999",
        "NaN",
        "-Infinity",
        "9" * 400,
        "9" * 5000,
        '"x"',
        '"\\ud800"',
    ),
    *('"a\\u0000b"', "[]", "{}", "[1]", '{"a": 1}', "[" * 3_000, "[" * 900 + "]" * 900, '{"a":' * 3_000, ""),
    *('"' + "a" * 5_000 + '"', '{"\\ud800": 1}', "\0", "\udcff"),
]
HOLE = "@@"


def with_each_value_replaced(example: Any) -> Iterator[str]:
    """JSON with a hole at the place of each value in it, the whole of it first."""
    yield HOLE
    parts = example.items() if isinstance(example, dict) else enumerate(example) if isinstance(example, list) else ()
    for key, part in parts:
        for text in with_each_value_replaced(part):
            held = f"{key}".join("<>")
            whole = {**example, key: held} if isinstance(example, dict) else [*example[:key], held, *example[key + 1 :]]
            yield json.dumps(whole).replace(json.dumps(held), text)


@pytest.mark.parametrize("kind", KEPT)
def test_no_value_in_a_kept_file_breaks_who_reads_it_back(tmp_path: Path, kind: str) -> None:
    example, read = KEPT[kind]
    for text in with_each_value_replaced(example):
        for value in VALUES:
            kept = text.replace(HOLE, value)
            (tmp_path / FILES.get(kind, "q.note")).write_text(kept, encoding="utf-8", errors="surrogateescape")
            try:
                read(tmp_path)
            except EverlogError as error:
                str(error).encode()
            except Exception as error:
                raise AssertionError((text, value[:40])) from error


def test_offsets_that_spark_decoded_are_refused_in_a_text_that_is_short() -> None:
    for value in (None, [], 10**400, 1e400, {"version": 10**400}, {"version": 1, "stores": {"s": {"t": 10**400}}}):
        with pytest.raises(EverlogError) as error:
            from_json(value)
        assert len(str(error.value)) < 1000


def test_json_is_finite_and_not_endlessly_deep() -> None:
    assert parse_json('{"a": [1, 2.5, "\\ud83d\\ude00"]}') == {"a": [1, 2.5, "\U0001f600"]}
    assert parse_json(b"[" * 200 + b"]" * 200)
    for text in ("[" * 201 + "]" * 201, '{"a":' * 201 + "1" + "}" * 201, "[" * 10**6, "NaN", "1e999", "[-Infinity]"):
        with pytest.raises(ValueError, match=r"nested deeper than 200|is not a JSON number|the number"):
            parse_json(text)
    with pytest.raises(ValueError, match="digits"):
        parse_json("9" * 5000)


def test_an_errors_text_is_short_and_can_be_printed_and_its_fields_have_all() -> None:
    found = "\ud800" + "x" * 100_000
    error = EverlogError("file\udcff", found=found, expected="less")
    assert len(str(error)) < 5000
    assert str(error).startswith("file\\udcff: \\ud800xxx")
    assert str(error).endswith("x; expected less")
    assert error.found == found
