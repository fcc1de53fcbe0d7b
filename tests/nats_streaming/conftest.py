"""Golden stores unpacked once, and stores made by hand from the format's description."""

from __future__ import annotations

import json
import struct
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tests
from everlog.core.report import Fault
from everlog.nats_streaming.store import NatsStreamingStore
from everlog.stores import open_store

GOLDEN = tests.GOLDEN / "nats_streaming"
VERSION = b"\x01\x00\x00\x00"


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


class Made:
    """Bytes of the format, by hand: what a server would write."""

    version = VERSION

    @staticmethod
    def number(field: int, value: int) -> bytes:
        return varint(field << 3) + varint(value)

    @staticmethod
    def text(field: int, value: bytes) -> bytes:
        return varint(field << 3 | 2) + varint(len(value)) + value

    def message(
        self, sequence: int, data: bytes = b"", channel: bytes = b"foo", time: int = 10**18, reply: bytes = b""
    ) -> bytes:
        out = self.number(1, sequence) + self.text(2, channel)
        out += self.text(3, reply) if reply else b""
        out += self.text(4, data) if data else b""
        return out + self.number(5, time)

    @staticmethod
    def record(payload: bytes, kind: int = 0) -> bytes:
        return struct.pack("<II", kind << 24 | len(payload), zlib.crc32(payload)) + payload

    @staticmethod
    def entry(sequence: int, offset: int, size: int, time: int = 10**18) -> bytes:
        body = struct.pack("<QqqI", sequence, offset, time, size)
        return body + struct.pack("<I", zlib.crc32(body))

    def slice(self, sequences: range, channel: bytes = b"foo", time: int = 10**18) -> tuple[bytes, bytes]:
        """A slice's .dat and .idx; message k has the data ``message k`` and the time ``time + k`` seconds."""
        dat, idx = bytearray(VERSION), bytearray(VERSION)
        for k in sequences:
            payload = self.message(k, b"message %d" % k, channel, time + k * 10**9)
            idx += self.entry(k, len(dat), len(payload), time + k * 10**9)
            dat += self.record(payload)
        return bytes(dat), bytes(idx)

    def server(self) -> bytes:
        return VERSION + self.record(self.text(1, b"made") + self.text(2, b"_STAN.discover.made"))

    def store(self, root: Path, **files: bytes) -> Path:
        """A store of one channel ``foo``: ``dat_1``, ``idx_1``, ``dat_2``, ... and ``subs``, ``clients``,
        ``server``."""
        folder = root / "foo"
        folder.mkdir(parents=True)
        (root / "server.dat").write_bytes(files.pop("server", self.server()))
        (root / "clients.dat").write_bytes(files.pop("clients", VERSION))
        (folder / "subs.dat").write_bytes(files.pop("subs", VERSION))
        for name, data in files.items():
            kind, number = name.split("_")
            (folder / f"msgs.{number}.{kind}").write_bytes(data)
        return root


@pytest.fixture(scope="session")
def made() -> Made:
    return Made()


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``golden("basic_sigterm")``, ``golden("broken/dir_stray")``: the unpacked store, shared: not to be written to."""
    root = tmp_path_factory.mktemp("golden")
    known: dict[str, Path] = {}

    def unpack(name: str) -> Path:
        if name not in known:
            with tarfile.open(GOLDEN / f"{name}.tar.gz") as archive:
                archive.extractall(root, filter="data")
            known[name] = root / name
        return known[name]

    return unpack


@pytest.fixture(scope="session")
def truth() -> Callable[[str], dict[str, Any]]:
    def load(name: str) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
        return loaded

    return load


@pytest.fixture(scope="session")
def opened() -> Callable[..., NatsStreamingStore]:
    def open_one(path: Path, **options: Any) -> NatsStreamingStore:
        store = open_store(path, family="nats-streaming", **options)
        assert isinstance(store, NatsStreamingStore)
        return store

    return open_one


class Found:
    """What reading one stream gives: sequences, payloads, faults."""

    def __init__(self, store: NatsStreamingStore, stream: str = "foo", **asked: Any) -> None:
        self.faults: list[Fault] = []
        self.records = list(store.read(stream, on_fault=self.faults.append, **asked))
        self.sequences = [r.fields["sequence"] for r in self.records]
        self.payloads = [r.payload for r in self.records]
        self.codes = [(f.code, f.file, f.offset) for f in self.faults]


@pytest.fixture(scope="session")
def reading() -> type[Found]:
    return Found
