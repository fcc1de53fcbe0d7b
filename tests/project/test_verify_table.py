"""``docs/verify.md`` says what verify and read give for every golden store. Here both are run and compared with it."""

from __future__ import annotations

import io
import json
import sys
from collections import Counter
from typing import Any

import pytest

import tests
from everlog.aeron.cluster.format.faults import CODES as CLUSTER_CODES
from everlog.aeron.transport.folder.faults import CODES as DRIVER_CODES
from everlog.cli.app import run
from everlog.jlog.format.faults import CODES
from everlog.nats_streaming.verify.faults import FAULT_CODES

PAGE = tests.ROOT / "docs" / "verify.md"
FLAGS = {"encryption_key": "--encryption-key", "crc_poly": "--crc-poly", "include_bak": "--include-bak"}


def flags(options: dict[str, Any]) -> list[str]:
    return [
        part for key, value in options.items() for part in ([FLAGS[key]] if value is True else [FLAGS[key], str(value)])
    ]


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, bytes]:
    out = io.BytesIO()
    text = io.TextIOWrapper(out, encoding="utf-8", write_through=True)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", text)
        patch.setattr(sys, "stderr", io.StringIO())
        code = run(arguments)
        text.flush()
    return code, out.getvalue()


def table() -> dict[str, str]:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    return {row.split("`")[1]: row for row in rows if "/" in row.split("`")[1]}


def described(faults: list[dict[str, Any]]) -> str:
    counts = Counter((fault["severity"], fault["code"]) for fault in faults)
    parts = [
        f"{'note ' if severity == 'note' else ''}`{code}`" + (f" ×{count}" if count > 1 else "")
        for (severity, code), count in sorted(counts.items())
    ]
    return ", ".join(parts) or "nothing"


def test_the_table_says_what_verify_and_read_give(golden: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    options = flags(golden.options)
    verify_code, report = call(monkeypatch, "verify", str(golden.path), "--json", *options)
    read_code, lines = call(monkeypatch, "read", str(golden.path), "--json", "--no-payload", *options)
    faults = json.loads(report)["faults"]
    count = len(lines.splitlines())
    row = f"| `{golden.name}` | {described(faults)} | {verify_code} | {count} records | {read_code} |"
    assert table().get(golden.name) == row
    assert verify_code == int(any(fault["severity"] == "fault" for fault in faults))


def test_every_fault_code_in_the_table_is_explained() -> None:
    text = PAGE.read_text(encoding="utf-8")
    explained = {
        line.split("`")[1] for line in text.splitlines() if line.startswith("| `") and "/" not in line.split("`")[1]
    }
    used = {part for row in table().values() for part in row.split("`")[3::2]}
    assert used <= explained, f"not explained: {sorted(used - explained)}"


def test_every_code_that_a_family_declares_is_explained() -> None:
    text = PAGE.read_text(encoding="utf-8")
    missing = [code for code in {*CODES, *FAULT_CODES, *DRIVER_CODES, *CLUSTER_CODES} if f"| `{code}` |" not in text]
    assert missing == []
