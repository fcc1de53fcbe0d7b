"""Messages that sbe-tool's generated Java code wrote: decoded to what was put in, and encoded to the same bytes."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest

import tests
from everlog.sbe import Schema, load_schema, parse_schema

GOLDEN = tests.GOLDEN / "sbe"
SCHEMA = GOLDEN / "every-feature.xml"


def messages(name: str) -> list[dict[str, Any]]:
    with gzip.open(GOLDEN / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def schema(name: str) -> Schema:
    if name == "big":
        return parse_schema(SCHEMA.read_bytes().replace(b'"littleEndian"', b'"bigEndian"'))
    return load_schema(SCHEMA)


def as_written(fields: dict[str, Any]) -> dict[str, Any]:
    """The truth has bytes in base64."""
    return {k: base64.b64decode(v) if k == "raw" else v for k, v in fields.items()}


@pytest.mark.parametrize("name", ["little", "big", "older", "newer"])
def test_messages_of_every_writer_are_decoded_to_what_was_put_in(name: str) -> None:
    known = schema(name)
    count = 0
    for line in messages(name):
        payload = bytes.fromhex(line["payload"])
        decoded = known.decode(payload)
        assert decoded.template == line["template"]
        assert decoded.fields == as_written(line["fields"])
        assert list(decoded.fields) == list(line["fields"])
        assert decoded.version == {"older": 0, "newer": 3}.get(name, 2)
        if name != "newer":  # which may have more behind what is known
            assert decoded.end == len(payload)
        count += 1
    assert count >= 12


@pytest.mark.parametrize("name", ["little", "big"])
def test_what_was_put_in_is_encoded_to_the_same_bytes(name: str) -> None:
    known = schema(name)
    for line in messages(name):
        assert known.encode(line["template"], as_written(line["fields"])).hex() == line["payload"]


def test_a_message_in_the_midst_of_a_buffer_is_decoded_where_it_is() -> None:
    line = messages("little")[1]
    payload = bytes.fromhex(line["payload"])
    decoded = load_schema(SCHEMA).decode(memoryview(b"\xff" * 7 + payload + b"\xff" * 9), 7)
    assert decoded.fields == as_written(line["fields"])
    assert decoded.end == 7 + len(payload)
