"""Errors that are raised again with the path of their store, or with another hint, keep their sentence."""

from __future__ import annotations

import pickle

import pytest

from everlog.discovery import FoundStore
from everlog.errors import CorruptData, EverlogError, StoreUnavailable, UnknownStream, WriteFailed
from everlog.pipelines.scan.store_errors import at_store, out_of_reach, removed

STORE = FoundStore("/data/a", "jlog")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            CorruptData("metastore", offset=4, found="magic 7", expected="1 or 2"),
            "/data/a/metastore at offset 4: magic 7; expected 1 or 2",
        ),
        (
            StoreUnavailable("metastore", found="permission denied", message="can't read metastore: permission denied"),
            "/data/a: can't read metastore: permission denied",
        ),
        (
            StoreUnavailable("/data/a/7", found="no such file", message="no such file or directory: /data/a/7"),
            "no such file or directory: /data/a/7",
        ),
        (UnknownStream("stream", found="7", message="no stream '7'"), "/data/a: no stream '7'"),
        (UnknownStream("recording 7", found="deleted"), "/data/a: recording 7: deleted"),
    ],
)
def test_an_error_gets_the_path_once(error: EverlogError, text: str) -> None:
    inside = error.inside("/data/a")
    assert (type(inside), str(inside)) == (type(error), text)
    assert (inside.offset, inside.found, inside.expected) == (error.offset, error.found, error.expected)
    assert inside.where.startswith("/data/a")
    assert str(inside.inside("/data/a")) == text
    assert str(pickle.loads(pickle.dumps(inside))) == text


def test_only_the_hint_changes() -> None:
    error = WriteFailed("7.rec", found="no space left", hint="delete files", message="can't write 7.rec: no space left")
    error.appended = 3
    other = error.with_hint("use another disk")
    assert str(other) == "can't write 7.rec: no space left (use another disk)"
    assert (other.where, other.found, other.appended) == ("7.rec", "no space left", 3)
    assert str(error.inside("/data/a")).endswith("(delete files)")


def test_the_errors_of_a_query_keep_their_sentences() -> None:
    denied = StoreUnavailable("7", found="permission denied", message="can't read 7: permission denied")
    assert str(at_store(STORE, denied)) == (
        "/data/a: can't read 7: permission denied (failOnDataLoss=false continues without it)"
    )
    assert str(out_of_reach(STORE, denied)).startswith("/data/a: can't read 7: permission denied (failOnDataLoss=")
    gone = UnknownStream("/data/a", found="recording 7", message="no recording 7 in /data/a")
    assert str(removed(STORE, gone)) == (
        "no recording 7 in /data/a (it was removed after the query was planned; "
        "failOnDataLoss=false continues without it)"
    )
    damaged = CorruptData("metastore", found="magic 7", expected="1 or 2")
    assert str(at_store(STORE, damaged)) == (
        "/data/a/metastore: magic 7; expected 1 or 2 (onFault=skip leaves the store out)"
    )
