"""FIFOs, sockets and devices in place of files: named in the error, neither waited for nor read without end."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tests
from everlog.aeron.transport.driver.settings.properties import read_properties
from everlog.aeron.transport.memory.shared_files import map_file
from everlog.charts.page import Report
from everlog.cli.app import run
from everlog.core.files.remote import RemoteStorage
from everlog.discovery import find_stores
from everlog.errors import EverlogError
from everlog.nats_streaming.options import NatsStreamingOptions
from everlog.nats_streaming.reading.encryption import load_master_key
from everlog.pipelines.export.folder import MANIFEST, read_manifest
from everlog.pipelines.export.manifest import ExportedFile, StreamKey
from everlog.pipelines.export.reading import FileToRead, batches_of, check_file
from everlog.pipelines.migrate.connection import Connection
from everlog.pipelines.scan.options import parse_options
from everlog.sbe import load_schema
from everlog.spark.session import _stderr_to

pytestmark = pytest.mark.timeout(30)
GOLDEN = tests.GOLDEN
SCHEMA = """<messageSchema xmlns:xi="http://www.w3.org/2001/XInclude" package="p" id="1" version="0">
  <xi:include href="odd"/></messageSchema>"""


def included(odd: Path) -> object:
    schema = odd.with_name("schema.xml")
    schema.write_text(SCHEMA)
    return load_schema(schema, allow_includes=True)


def exported(odd: Path) -> object:
    place = odd.parent / MANIFEST
    place.parent.mkdir()
    odd.rename(place)
    return read_manifest(str(odd.parent))


def summed(odd: Path) -> object:
    file = ExportedFile(path="odd", rows=1, byte_count=1, crc32=0, first="0", last="0")
    return check_file(FileToRead(StreamKey("s", "t"), str(odd), file, "jsonl"))


READERS: dict[str, Callable[[Path], object]] = {
    "key": lambda odd: load_master_key(NatsStreamingOptions(encryption_key_file=str(odd))),
    "schema": load_schema,
    "included schema": included,
    "schema of the data source": lambda odd: parse_options({"path": "x", "sbeSchema": str(odd)}),
    "properties": lambda odd: read_properties(str(odd)),
    "file to share, read": lambda odd: map_file(odd, minimum=1, maximum=1 << 20, writable=False),
    "file to share, written": lambda odd: map_file(odd, minimum=1, maximum=1 << 20),
    "manifest of an export": exported,
    "exported JSON": lambda odd: list(batches_of(str(odd), "jsonl", ["address"])),
    "exported Arrow": lambda odd: list(batches_of(str(odd), "arrow", ["address"])),
    "exported Parquet": lambda odd: list(batches_of(str(odd), "parquet", ["address"])),
    "exported file to check": summed,
} | {
    name: lambda odd, name=name: Connection(servers=("nats://h",), **{name: str(odd)}).settings()  # type: ignore[misc]
    for name in ("creds_file", "nkey_file", "ca_file")
}


@pytest.mark.parametrize("kind", ["a FIFO", "a character device"])
@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_an_option_names_is_refused_by_what_it_is(tmp_path: Path, reader: str, kind: str) -> None:
    odd = tmp_path / "odd"
    if kind == "a FIFO":
        os.mkfifo(odd)
    else:
        odd.symlink_to("/dev/zero")
    with pytest.raises(EverlogError, match=f"is {kind}, not a regular file"):
        READERS[reader](odd)


@pytest.mark.parametrize(
    "command",
    [
        ["read", "{store}", "--encryption-key-file", "{odd}"],
        ["read", "{store}", "--sbe-schema", "{odd}"],
        ["run", "driver", "--print", "{odd}"],
    ],
)
def test_the_command_line_names_the_fifo(tmp_path: Path, command: list[str]) -> None:
    odd = tmp_path / "odd"
    os.mkfifo(odd)
    store = unpacked("nats-streaming", tmp_path)
    code, _, errors = call(*(word.format(odd=odd, store=store) for word in command))
    assert (code, errors.count("\n")) == (2, 1)
    assert "is a FIFO, not a regular file" in errors


def test_a_log_that_nobody_reads_is_an_error_and_one_that_is_read_is_written(tmp_path: Path) -> None:
    log = tmp_path / "log"
    os.mkfifo(log)
    with pytest.raises(EverlogError, match="log: no such device or address"), _stderr_to(log):
        pass
    reader = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    with _stderr_to(log):
        os.write(2, b"a line\n")
    assert os.read(reader, 100) == b"a line\n"
    os.close(reader)
    with _stderr_to(Path("/dev/null")):
        os.write(2, b"not seen\n")


def test_a_page_is_written_where_a_fifo_has_its_drafts_name(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "page.html.part")
    Report("title", "body").save(tmp_path / "page.html")
    assert "body" in (tmp_path / "page.html").read_text()
    assert os.listdir(tmp_path) == ["page.html"]


def test_what_is_no_file_behind_a_url_is_no_empty_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "odd")
    (tmp_path / "folder").mkdir()
    storage = RemoteStorage(f"file://{tmp_path}")
    with pytest.raises(EverlogError, match="odd is a special file, not a regular file"):
        storage.open("odd")
    with pytest.raises(EverlogError, match="folder is a folder, not a regular file"):
        storage.read_all("folder")


STORES = {
    "aeron-archive": "aeron/archive-basic/archive.tar.gz",
    "aeron-cluster": "aeron/cluster-3node/node0.tar.gz",
    "aeron-driver": "aeron/transport/aeron-dir.tar.gz",
    "jlog": "jlog/e_trunc_last/before.tar.gz",
    "nats-streaming": "nats_streaming/basic_sigterm.tar.gz",
}
COMMANDS = ("info", "read --json --limit 20", "verify", "repair --dry-run", "metrics --once")


def unpacked(family: str, folder: Path) -> Path:
    with tarfile.open(GOLDEN / STORES[family]) as tar:
        tar.extractall(folder / "unpacked", filter="data")
    (store,) = (folder / "unpacked").iterdir()
    return store / "cluster" if family == "aeron-cluster" else store


def call(*arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command; a traceback for what is no error of ours."""
    out = io.BytesIO()
    with (
        io.TextIOWrapper(out, encoding="utf-8", write_through=True) as text,
        contextlib.redirect_stdout(text),
        contextlib.redirect_stderr(io.StringIO()) as errors,
    ):
        code = run(list(arguments))
        text.flush()
        return code, out.getvalue().decode(), errors.getvalue()


@contextlib.contextmanager
def in_place_of(files: list[Path]) -> Iterator[None]:
    """FIFOs in place of files, for a while."""
    held = {file: file.with_name(f"{file.name}.held") for file in files}
    for file, aside in held.items():
        file.rename(aside)
        os.mkfifo(file)
    yield
    for file, aside in held.items():
        aside.replace(file)


def one_of_each_kind(store: Path) -> dict[str, list[Path]]:
    """A file of each ending, and all files."""
    root = store.parent if store.name == "cluster" else store
    files = sorted(file for file in root.rglob("*") if file.is_file())
    return {file.suffix or file.name: [file] for file in reversed(files)} | {"all": files}


@pytest.mark.parametrize("family", STORES)
def test_no_command_waits_for_a_fifo_among_a_stores_files(
    tmp_path: Path, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVERLOG_TRACEBACK", "1")
    store = unpacked(family, tmp_path)
    for files in one_of_each_kind(store).values():
        with in_place_of(files):
            for command in COMMANDS:
                code, _, errors = call(command.split()[0], str(store), "--family", family, *command.split()[1:])
                assert code in (0, 1, 2), (files, command, errors)
            with contextlib.suppress(EverlogError):
                find_stores((str(store.parent),))
                find_stores((str(store),), family)


@pytest.mark.parametrize("family", sorted(STORES))
def test_verify_tells_of_a_fifo_where_a_file_must_be(tmp_path: Path, family: str) -> None:
    usual = {
        "aeron-archive": "archive.catalog",
        "aeron-cluster": "recording.log",
        "aeron-driver": "cnc.dat",
        "jlog": "metastore",
        "nats-streaming": "server.dat",
    }
    store = unpacked(family, tmp_path)
    with in_place_of([store / usual[family]]):
        code, out, errors = call("verify", str(store), "--family", family)
    assert code in (1, 2)
    assert "FIFO" in out + errors, (out, errors)
