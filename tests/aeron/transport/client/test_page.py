"""The page about the client: its examples run, it tells of every option and error."""

from __future__ import annotations

import dataclasses
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import tests
from everlog.aeron import Aeron
from everlog.aeron.transport import client
from everlog.aeron.transport.client.options import ClientOptions
from everlog.aeron.transport.driver.media_driver import MediaDriver
from everlog.errors import EverlogError

PAGE = (tests.ROOT / "docs" / "aeron.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def driver_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Of a running driver, which clients find by the environment."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as parent:
        folder = Path(parent) / "driver"
        with MediaDriver.launch(dir=str(folder), ipc_term_buffer_length=64 << 10, in_process=True):
            monkeypatch.setenv("AERON_DIR", str(folder))
            yield folder


def test_the_examples_run_one_after_the_other(driver_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    exec(EXAMPLES[0], names)
    with Aeron.connect() as aeron:
        names |= {
            "aeron": aeron,
            "subscription": aeron.add_subscription("aeron:ipc", 1001),
            "publication": aeron.add_publication("aeron:ipc", 1001),
        }
        for example in EXAMPLES[1:]:
            exec(example, names)
    told = capsys.readouterr().out
    assert "b'hello'" in told
    assert "'payload': [b'one', b'two']" in told


def test_every_option_is_told() -> None:
    table = PAGE.split("## Options")[1]
    assert [field.name for field in dataclasses.fields(ClientOptions) if f"`{field.name}`" not in table] == []


def test_every_error_is_told() -> None:
    table = PAGE.split("## When something is wrong")[1].split("## ")[0]
    kinds = [getattr(client, name) for name in client.__all__]
    errors = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, EverlogError)]
    assert len(errors) >= 8
    assert [kind.__name__ for kind in errors if f"`{kind.__name__}`" not in table] == []


def test_every_way_to_publish_and_to_poll_is_told() -> None:
    publishing, subscribing = PAGE.split("## Publishing")[1].split("## Subscribing")
    subscribing = subscribing.split("## Channels")[0]
    offers = ("offer", "try_claim", "append", "send", "async_send")
    for name in dir(client.ExclusivePublication):
        if name.startswith(offers) and name != "append_padding":
            assert f"`{name}(" in publishing or f" {name}(" in publishing, name
    for name in dir(client.Subscription):
        if "poll" in name or name == "messages":
            assert f"{name}(" in subscribing, name
