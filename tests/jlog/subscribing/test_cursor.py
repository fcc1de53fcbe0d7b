"""Reading on while others write: moments that only happen now and then, made to happen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from everlog.core.files.storage import LocalFile
from everlog.core.files.writable import LocalWritableFile, LocalWritableStorage
from everlog.core.report import Fault
from everlog.errors import StoreUnavailable
from everlog.jlog import Subscriber, Writer, alter, create


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    create(tmp_path / "j", segment_bytes=1 << 20)
    return tmp_path / "j"


class MadeMeanwhile(LocalWritableStorage):
    """The segment is made after an attempt to open it failed, before it is asked whether it is there."""

    def open(self, name: str) -> LocalFile:
        try:
            return super().open(name)
        except StoreUnavailable:
            if name == "00000000":
                Path(self.root, name).touch()
            raise


def test_a_segment_made_the_moment_it_is_looked_for_is_no_error(journal: Path) -> None:
    with Subscriber(MadeMeanwhile(journal), "s", create="beginning") as subscriber:
        assert list(subscriber) == []
        with Writer(journal) as writer:
            writer.append(b"first")
        assert [message.payload for message in subscriber] == [b"first"]


def test_an_empty_segment_that_a_dead_writer_made_does_not_end_the_one_before(journal: Path) -> None:
    with Subscriber(journal, "s", create="beginning") as subscriber, Writer(journal) as writer:
        writer.append(b"first")
        alter(journal, segment_bytes=10)
        (journal / "00000001").touch()  # a writer that went on to the next segment died in it
        assert [message.payload for message in subscriber] == [b"first"]
        with open(journal / "metastore", "r+b") as metastore:  # as the C library alters the limit
            metastore.seek(4)
            metastore.write((1 << 20).to_bytes(4, "little"))
        writer.append(b"second")
        assert [message.payload for message in subscriber] == [b"second"]
        alter(journal, segment_bytes=10)
        writer.append(b"third")
        assert [message.payload for message in subscriber] == [b"third"]


@pytest.mark.parametrize("torn_at", [38, 39, 38 + 16, 38 + 22])
def test_a_message_of_messages_that_is_being_written_is_not_taken_apart(journal: Path, make: Any, torn_at: int) -> None:
    """Those inside are not older than it: another machine's clock is ahead."""
    faults: list[Fault] = []
    quoted = make.message(b"quoted", time=1_900_000_000) * 3 + b"and a word of its own"
    outer = make.message(quoted, time=1_800_000_000)
    with Subscriber(journal, "s", create="beginning", on_fault=faults.append) as subscriber:
        with LocalWritableFile(str(journal / "00000000"), "00000000", 0o100, 0o640) as file:
            file.lock()
            file.write_at(0, outer[:torn_at])
            assert list(subscriber) == []
            file.write_at(torn_at, outer[torn_at:])
            file.unlock()
        assert [message.payload for message in subscriber] == [quoted]
    assert not faults


def test_a_torn_message_that_somebody_wrote_behind_is_stepped_over(journal: Path, make: Any) -> None:
    faults: list[Fault] = []
    with Subscriber(journal, "s", create="beginning", on_fault=faults.append) as subscriber:
        torn = make.message(b"x" * 500)[:30]
        (journal / "00000000").write_bytes(make.message(b"first") + torn + make.message(b"behind"))
        assert [message.payload for message in subscriber] == [b"first", b"behind"]
    assert [fault.code for fault in faults] == ["torn-record"]
