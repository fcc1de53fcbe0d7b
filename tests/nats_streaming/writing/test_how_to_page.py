"""The code of ``docs/write-nats-streaming.md`` runs as it is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tests
from everlog import open_store
from everlog.nats_streaming.writing.options import WriteOptions

PAGE = tests.ROOT / "docs" / "write-nats-streaming.md"


def test_the_pages_code_writes_what_the_page_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))
    exec(compile(code.replace("/data/store", str(tmp_path / "store")), PAGE.name, "exec"), {})
    assert capsys.readouterr().out == "3\n"
    with open_store(tmp_path / "store") as store:
        assert store.verify().faults == []
        found = {name: [record.payload for record in store.read(name)] for name in store.stream_names()}
    assert found == {"orders": [b"first", b"second", b"third"], "orders.eu": [b"hello"], "orders.us": [b"hello"]}


def test_the_page_names_every_option() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in WriteOptions.__dataclass_fields__ if f"`{name}`" not in text] == []
