"""Composites whose members came with later versions of the schema: what sbe-tool's generated Java code of four versions
wrote."""

from __future__ import annotations

import gzip
import json
from array import array
from collections import Counter
from itertools import accumulate
from typing import Any

import pytest

import tests
from everlog.core.batch import Batch
from everlog.core.columns import Column, ColumnData, ColumnType
from everlog.sbe import load_schema
from everlog.sbe.columns import SbeColumns

GOLDEN = tests.GOLDEN / "sbe"
SCHEMA = load_schema(GOLDEN / "versioned-composites.xml")
NAMES = {1: "Place", 2: "Boxed"}
LEAVES = ("x", "y", "inner_a", "inner_b", "price_mantissa", "price_exponent", "side", "fuel")


def lines() -> list[dict[str, Any]]:
    with gzip.open(GOLDEN / "versioned.jsonl.gz", "rt", encoding="utf-8") as file:
        found = [json.loads(line) for line in file]
    assert Counter((line["template_id"], line["version"]) for line in found) == {
        (template, version): 12 for template in NAMES for version in range(4)
    }
    return found


def test_members_that_the_writer_did_not_have_are_null_in_nested_composites_too() -> None:
    for line in lines():
        payload = bytes.fromhex(line["payload"])
        decoded = SCHEMA.decode(payload)
        assert (decoded.template, decoded.version) == (NAMES[line["template_id"]], line["version"])
        assert decoded.fields == line["fields"]
        assert decoded.end == len(payload)


def test_what_was_put_in_is_encoded_to_the_same_bytes() -> None:
    for line in lines():
        if line["version"] == 2:
            assert SCHEMA.encode(NAMES[line["template_id"]], line["fields"]).hex() == line["payload"]


@pytest.mark.parametrize(("name", "path"), [("Place", ("spot",)), ("Boxed", ("box", "spot"))])
def test_typed_columns_have_nulls_for_them(name: str, path: tuple[str, ...]) -> None:
    found = [line for line in lines() if NAMES[line["template_id"]] == name]
    payloads = [bytes.fromhex(line["payload"]) for line in found]
    offsets = memoryview(array("i", [0, *accumulate(map(len, payloads))]))
    data = ColumnData(ColumnType.BINARY, memoryview(b"".join(payloads)), offsets)
    batch = Batch((Column("payload", ColumnType.BINARY),), len(payloads), {"payload": data})
    columns = [f"sbe_{'_'.join(path)}_{leaf}" for leaf in LEAVES]
    extras = f"sbe_{'_'.join(path)}_extras"
    made = SbeColumns(SCHEMA, name).extend(batch, [*columns, extras])
    for leaf, column in zip(LEAVES, columns, strict=True):
        assert made.to_list(column) == [at(line["fields"], *path, *leaf.split("_")) for line in found]
    choices = [at(line["fields"], *path, "extras") for line in found]
    assert made.to_list(extras) == [None if names is None else 8 * len(names) for names in choices]
    nulls = {leaf: made.to_list(column).count(None) for leaf, column in zip(LEAVES, columns, strict=True)}
    oldest = 12 if name == "Boxed" else 0
    assert (nulls["x"], nulls["inner_a"], nulls["inner_b"]) == (oldest, 12, 24)


def at(fields: Any, *path: str) -> Any:
    for part in path:
        fields = None if fields is None else fields[part]
    return fields
