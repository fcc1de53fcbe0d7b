"""Options with a few allowed texts are Literals, so that a type checker finds a misspelt one."""

from __future__ import annotations

import inspect
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from everlog import jlog
from everlog.core.files.durability import Durability
from everlog.errors import Closed, UsageError, WrongType
from everlog.jlog.format.metastore import SAFETY
from everlog.jlog.options import Compression, DurabilityName, Safety, StartPlace
from everlog.jlog.subscribing.subscriptions import BEGINNING, END
from everlog.jlog.writing.creation import COMPRESSIONS


def literals(call: Any, name: str) -> set[Any]:
    """The allowed texts of an argument, by its annotation."""
    hint = get_type_hints(call)[name]
    parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return {value for part in parts if get_origin(part) is Literal for value in get_args(part)}


@pytest.mark.parametrize(
    ("call", "name", "allowed"),
    [
        (jlog.create, "safety", set(SAFETY.values())),
        (jlog.alter, "safety", set(SAFETY.values())),
        (jlog.create, "compression", {name for name in COMPRESSIONS if name is not None}),
        (jlog.Writer.__init__, "durability", set(Durability)),
        (jlog.Subscriber.__init__, "create", {BEGINNING, END}),
        (jlog.AsyncSubscriber.__init__, "create", {BEGINNING, END}),
        (jlog.add_subscriber, "at", {BEGINNING, END}),
    ],
)
def test_the_annotation_has_the_allowed_values(call: Any, name: str, allowed: set[str]) -> None:
    assert literals(call, name) == allowed


def test_the_aliases_are_what_the_modules_check() -> None:
    assert get_args(Safety) == tuple(SAFETY.values())
    assert set(get_args(Compression)) == set(COMPRESSIONS) - {None}
    assert set(get_args(DurabilityName)) == set(Durability)
    assert get_args(StartPlace) == (BEGINNING, END)


@pytest.mark.parametrize("call", [jlog.Subscriber.follow, jlog.AsyncSubscriber.follow])
def test_seconds_say_so(call: Any) -> None:
    assert "timeout_s" in inspect.signature(call).parameters


@pytest.mark.parametrize(
    ("use", "error", "text"),
    [
        (lambda path: jlog.create(path, safety="sfae"), UsageError, "safety must be 'unsafe', .* not 'sfae'"),
        (lambda path: jlog.create(path, compression="zip"), UsageError, "compression must be .* not 'zip'"),
        (lambda path: jlog.create(path, segment_bytes="4"), WrongType, "segment_bytes must be an integer"),
        (lambda path: jlog.create(5), WrongType, "path must be a path, not int"),
        (lambda path: jlog.Writer(5), WrongType, "journal must be a path"),
        (lambda path: jlog.Writer(path, durability="sync"), UsageError, "durability must be 'buffered', .* not 'sync'"),
        (lambda path: jlog.Writer(path).append(b"", "now"), WrongType, "timestamp_ns must be an integer"),
        (lambda path: jlog.Writer(path).append(memoryview(b"abc")[::2]), WrongType, "a contiguous buffer"),
        (lambda path: jlog.Subscriber(path, 5), WrongType, "subscriber name must be str or bytes, not int"),
        (lambda path: jlog.Subscriber(path, "a", create="start"), UsageError, "create must be .* not 'start'"),
        (lambda path: jlog.add_subscriber(path, "a", at=1.5), WrongType, "address must be a number or text"),
    ],
)
def test_a_wrong_argument_is_one_sentence(tmp_path: Path, use: Any, error: type[Exception], text: str) -> None:
    jlog.create(tmp_path / "j")
    with pytest.raises(error, match=text) as raised:
        use(tmp_path / "j")
    assert isinstance(raised.value, TypeError) == (error is WrongType)


@pytest.mark.parametrize("compression", ["none", "lz4"])
@pytest.mark.parametrize("durability", ["buffered", "written", "synced"])
def test_text_is_no_message_and_a_closed_writer_takes_none(tmp_path: Path, compression: Any, durability: Any) -> None:
    jlog.create(tmp_path / "j", compression=compression)
    writer = jlog.Writer(tmp_path / "j", durability=durability)
    for payload in ("text", None):
        with pytest.raises(WrongType, match=rf"^message must be bytes, not {type(payload).__name__}$"):
            writer.append(payload)
        with pytest.raises(WrongType, match=r"^message must be bytes"):
            writer.append_many([b"good", payload])
    writer.close()
    with pytest.raises(Closed, match=r"^writer is closed$"):
        writer.append(b"late")
