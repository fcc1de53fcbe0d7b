"""``--sbe-schema``: decoded payloads in what read prints and export writes."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

import tests
from everlog.testing.toy.store import toy_line

GOLDEN = tests.GOLDEN
SCHEMA = GOLDEN / "sbe" / "every-feature.xml"


def golden() -> list[dict[str, Any]]:
    with gzip.open(GOLDEN / "sbe" / "little.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file][:7]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Stream ``s``: messages that sbe-tool's code wrote, and two payloads that are none."""
    folder = tmp_path / "store"
    folder.mkdir()
    payloads = [bytes.fromhex(line["payload"]) for line in golden()] + [b"plain", b"text"]
    (folder / "s.toy").write_bytes(b"".join(toy_line(n, n, "t", payload) for n, payload in enumerate(payloads)))
    return folder


def test_json_gets_the_message_and_the_raw_payload_stays(everlog: Any, store: Path) -> None:
    result = everlog("read", store, "--json", "--sbe-schema", SCHEMA)
    assert result.code == 0
    plain = everlog("read", store, "--json").rows
    expected = [{"template": line["template"], **line["fields"]} for line in golden()] + [None, None]
    assert result.rows == [{**row, "sbe": sbe} for row, sbe in zip(plain, expected, strict=True)]
    assert result.stderr == (
        "everlog: warning: SBE: a payload is shorter than a message header of 8 bytes; it and others of this kind are "
        "not decoded\n"
    )


def test_payloads_are_decoded_though_they_are_not_printed(everlog: Any, store: Path) -> None:
    (row,) = everlog("read", store, "--json", "--sbe-schema", SCHEMA, "--no-payload", "--limit", 1).rows
    assert "payload" not in row
    assert row["sbe"] == {"template": "Empty"}


def test_lines_for_people_show_the_start_of_the_message(everlog: Any, store: Path) -> None:
    lines = everlog("read", store, "--sbe-schema", SCHEMA).text.splitlines()
    assert lines[0].endswith('       8  {"template": "Empty"}')
    assert '  {"template": "Small", "a": ' in lines[1]
    assert lines[2].endswith("...")
    assert lines[7].endswith("       5  plain")


def test_jsonl_exports_the_message(everlog: Any, store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    assert everlog("export", store, out, "--sbe-schema", SCHEMA).code == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["sbe"] and row["sbe"]["template"] for row in rows][:3] == ["Empty", "Small", "Everything"]


def test_parquet_gets_template_and_json_or_a_messages_typed_columns(everlog: Any, store: Path, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    assert everlog("export", store, tmp_path / "a.parquet", "--sbe-schema", SCHEMA).code == 0
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.column_names[-2:] == ["sbe_template", "sbe"]
    assert "payload" in table.column_names
    names = [line["template"] for line in golden()]
    assert table["sbe_template"].to_pylist() == [*names, None, None]
    assert json.loads(table["sbe"][1].as_py()) == {"template": "Small", **golden()[1]["fields"]}
    arguments = ("--sbe-schema", SCHEMA, "--sbe-message", "Small", "--no-payload")
    assert everlog("export", store, tmp_path / "b.arrow", *arguments).code == 0
    import pyarrow as pa

    with pa.ipc.open_file(tmp_path / "b.arrow") as file:
        made = file.read_all()
    assert made.column_names[-9:] == ["sbe_template", *(f"sbe_{letter}" for letter in "abcdefgh")]
    assert "payload" not in made.column_names
    for letter in "abcdefgh":
        expected = [line["fields"][letter] if line["template"] == "Small" else None for line in golden()]
        assert made[f"sbe_{letter}"].to_pylist() == [*expected, None, None]


@pytest.mark.parametrize("no_payload", [[], ["--no-payload"]])
def test_an_export_of_one_message_has_no_other_records(
    everlog: Any, store: Path, tmp_path: Path, no_payload: list[str]
) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "small.parquet"
    arguments = ("--sbe-schema", SCHEMA, "--sbe-message", "Small", "--sbe-only", *no_payload)
    result = everlog("export", store, out, *arguments)
    expected = [line["fields"] for line in golden() if line["template"] == "Small"]
    assert f"wrote {len(expected)} records as parquet" in result.stderr
    table = pq.read_table(out)
    assert ("payload" in table.column_names) == (not no_payload)
    assert [{name: row[f"sbe_{name}"] for name in "abcdefgh"} for row in table.to_pylist()] == expected


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["read", "STORE", "--sbe-schema", "SCHEMA", "--raw"], "--sbe-schema and --raw exclude each other"),
        (["read", "STORE", "--sbe-schema", "SCHEMA", "--frames"], "a fragment is not a message"),
        (["read", "STORE", "--sbe-schema", "STORE/s.toy"], "s.toy line 1: "),
        (["read", "STORE", "--sbe-schema", "STORE/none.xml"], "no such file or directory"),
        (["export", "STORE", "OUT.parquet", "--sbe-message", "Small"], "--sbe-message needs --sbe-schema"),
        (
            ["export", "STORE", "OUT.parquet", "--sbe-schema", "SCHEMA", "--sbe-only"],
            "--sbe-only needs --sbe-message",
        ),
        (["export", "STORE", "OUT.parquet", "--sbe-schema", "SCHEMA", "--sbe-message", "No"], "no message 'No'"),
        (
            ["export", "STORE", "OUT.jsonl", "--sbe-schema", "SCHEMA", "--sbe-message", "Small"],
            "does not apply to jsonl",
        ),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    everlog: Any, store: Path, tmp_path: Path, arguments: list[str], complaint: str
) -> None:
    words = {"STORE": str(store), "SCHEMA": str(SCHEMA), "OUT": str(tmp_path / "out")}
    for word, value in words.items():
        arguments = [argument.replace(word, value) for argument in arguments]
    result = everlog(*arguments)
    assert (result.code, result.stdout) == (2, b"")
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_aeron_takes_times_out_of_messages(everlog: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tarfile.open(GOLDEN / "aeron" / "archive-basic" / "archive.tar.gz") as tar:
        tar.extractall(tmp_path, filter="data")
    (archive,) = tmp_path.iterdir()
    arguments = ("read", archive, "--json", "--limit", 1, "--timestamp-from", "sbe:time:ns")
    assert "needs an SBE schema" in everlog(*arguments).stderr
    result = everlog(*arguments, "--sbe-schema", SCHEMA)
    assert result.code == 0
    assert [(row["timestamp_ns"], row["sbe"]) for row in result.rows] == [(None, None)]
    frames = everlog(*arguments, "--sbe-schema", SCHEMA, "--frames")
    assert (frames.code, [row["timestamp_ns"] for row in frames.rows]) == (0, [None])
    assert "sbe" not in frames.rows[0]
