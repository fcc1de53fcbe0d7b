"""SBE messages into typed columns, against the PyPI package ``sbe``, which decodes them one by one.

The schema has one message with a fixed block of 8 fields. ``pip`` puts the peer and what it needs into a folder that is
thrown away; where that fails, its line is left out, with the reason.
"""

from __future__ import annotations

import importlib
import io
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.lines import Line, median_rate, paired_rates, seconds
from everlog.core.batch import Batch
from everlog.core.columns import MAX_BATCH_ROWS, Column, ColumnData, ColumnType
from everlog.sbe import parse_schema
from everlog.sbe.columns import SbeColumns, to_json

PEER = "sbe==0.4.3"
BATCHES = 64
PEER_MESSAGES = 4_000
FIELDS = (
    ("time", "uint64", "<u8"),
    ("order", "int64", "<i8"),
    ("price", "int64", "<i8"),
    ("ratio", "double", "<f8"),
    ("quantity", "uint32", "<u4"),
    ("venue", "int32", "<i4"),
    ("port", "uint16", "<u2"),
    ("kind", "int8", "<i1"),
)
KINDS = tuple(dict.fromkeys(kind for _, kind, _ in FIELDS))
SCHEMA = (
    '<sbe:messageSchema xmlns:sbe="http://fixprotocol.io/2016/sbe" package="bench" id="9" version="0" '
    'byteOrder="littleEndian" semanticVersion="1" description="a benchmark"><types><composite name="messageHeader">'
    + "".join(
        f'<type name="{n}" primitiveType="uint16"/>' for n in ("blockLength", "templateId", "schemaId", "version")
    )
    + "</composite>"
    + "".join(f'<type name="{kind}Type" primitiveType="{kind}"/>' for kind in KINDS)
    + '</types><sbe:message name="Order" id="1">'
    + "".join(f'<field name="{name}" id="{i}" type="{kind}Type"/>' for i, (name, kind, _) in enumerate(FIELDS))
    + "</sbe:message></sbe:messageSchema>"
)


def payloads(count: int) -> np.ndarray:
    """So many messages with random fields, one behind the other."""
    head = [("blockLength", "<u2"), ("templateId", "<u2"), ("schemaId", "<u2"), ("version", "<u2")]
    rows = np.zeros(count, dtype=head + [(name, code) for name, _, code in FIELDS])
    rng = np.random.default_rng(9)
    for name, _, code in FIELDS:
        kind = np.dtype(code)
        if kind.kind == "f":
            rows[name] = rng.normal(size=count)
        else:
            rows[name] = rng.integers(0, np.iinfo(kind).max, count, dtype=kind, endpoint=False)
    rows["blockLength"] = rows.dtype.itemsize - 8
    rows["templateId"], rows["schemaId"] = 1, 9
    return rows


def batch_of(rows: np.ndarray) -> Batch:
    """As a scan gives them."""
    size = rows.dtype.itemsize
    offsets = memoryview(np.arange(0, (len(rows) + 1) * size, size, dtype=np.int32))
    column = Column("payload", ColumnType.BINARY)
    data = ColumnData(ColumnType.BINARY, memoryview(rows.view(np.uint8).reshape(-1)), offsets)
    return Batch((column,), len(rows), {"payload": data})


def peer_decoder() -> Callable[[bytes], object] | str:
    """The peer's decoding of one message, or why it can't be had."""
    with tempfile.TemporaryDirectory(prefix="everlog-bench-") as folder:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, PEER]
        done = subprocess.run(pip, check=False, capture_output=True, text=True)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
            return f"{PEER} could not be installed: {reason}"
        sys.path.insert(0, folder)
        try:
            package: Any = importlib.import_module("sbe")
            schema = package.Schema.parse(io.StringIO(SCHEMA))
        except Exception as error:  # whatever a stranger's package raises
            return f"{PEER} does not work here: {type(error).__name__}: {error}"
        finally:
            sys.path.remove(folder)
    decode: Callable[[bytes], object] = schema.decode
    return decode


def lines() -> Iterator[Line | str]:
    """Typed columns; single messages; the JSON text."""
    schema = parse_schema(SCHEMA)
    decoder = SbeColumns(schema, "Order")
    names = [column.name for column in decoder.columns if column.name not in ("sbe", "sbe_template")]
    source = payloads(MAX_BATCH_ROWS * BATCHES)
    batches = [batch_of(source[i : i + MAX_BATCH_ROWS]) for i in range(0, len(source), MAX_BATCH_ROWS)]
    for (name, _, _), column in zip(FIELDS, names, strict=True):
        made = np.asarray(decoder.extend(batches[0], names).data[column].values)
        if not np.array_equal(made, source[name][:MAX_BATCH_ROWS]):
            raise SystemExit(f"column {column} is not what was written")

    def bulk() -> None:
        for batch in batches:
            decoder.extend(batch, names)

    def bulk_rate() -> float:
        return len(source) / seconds(bulk)

    few = [bytes(row) for row in source[:PEER_MESSAGES]]

    def rate_of(decode: Callable[[bytes], object]) -> float:
        return PEER_MESSAGES / seconds(lambda: [decode(payload) for payload in few])

    yield Line("sbe-8-fields-columns", median_rate(bulk_rate) / 1e6, "M/s", ">=20")
    text = median_rate(lambda: rate_of(lambda payload: to_json(schema.decode(payload).fields)))
    peer = peer_decoder()
    if isinstance(peer, str):
        yield f"{peer}: no comparison"
        return
    value, ratio = paired_rates(bulk_rate, lambda: rate_of(peer))
    yield Line("sbe-8-fields-columns-to-pypi-sbe", value / 1e6, "M/s", ">=20", ratio)
    value, ratio = paired_rates(lambda: rate_of(schema.decode), lambda: rate_of(peer))
    yield Line("sbe-8-fields-one-by-one", value / 1e6, "M/s", ">=1", ratio)
    yield f"to JSON {text / 1e6:.3g} M/s; {PEER} {value / ratio / 1e6:.3g} M/s, one core each"
