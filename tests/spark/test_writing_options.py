"""Options of a write, as Spark gives them: text, in any case of letters."""

from __future__ import annotations

from pathlib import Path

import pytest

from everlog import jlog
from everlog.aeron import archive
from everlog.core.durability import Durability
from everlog.errors import NotAStore, UsageError
from everlog.spark.writing.options import OPTION_NAMES, parse_write_options

DOCS = Path(__file__).resolve().parents[2] / "docs" / "spark.md"


@pytest.mark.parametrize("name", OPTION_NAMES)
def test_every_option_is_told(name: str) -> None:
    writing = DOCS.read_text(encoding="utf-8").split("\n## Writing")[1].split("\n## ")[0]
    assert f"`{name}`" in writing


def test_options_reach_what_takes_them_and_the_family_is_found(tmp_path: Path) -> None:
    path = tmp_path / "archive"
    archive.create(path).close()
    given = {"PATH": str(path), "streamid": "7", "termLength": "64k", "segmentLength": "1m", "durability": "written"}
    found = parse_write_options({**given, "checkpointlocation": "/c", "queryname": "q", "livenessTimeout": "2s"})
    assert (found.path, found.family, found.durability) == (str(path), "aeron-archive", Durability.WRITTEN)
    assert found.staging == f"{path}.everlog-staging"
    assert found.recording == {"stream_id": 7, "wishes": {"term_length": 65536}}
    assert (found.made_with, found.archive) == ({"segment_length": 1 << 20}, {"liveness_timeout_s": 2.0})
    assert found.target == f"{path}?streamId=7"


def test_two_recordings_of_one_archive_are_two_targets(tmp_path: Path) -> None:
    path = tmp_path / "archive"
    archive.create(path).close()
    targets = {parse_write_options({"path": str(path), "recording": n}).target for n in ("0", "1")}
    assert targets == {f"{path}?recording=0", f"{path}?recording=1"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": ""}, "path: found none"),
        ({"path": "s3://bucket/x"}, "a folder on the driver's machine"),
        ({"create": "maybe"}, "option create: found 'maybe'"),
        ({"family": "nats-streaming"}, "option family: found 'nats-streaming'"),
        ({"family": "aeron-archive"}, "found a store of jlog"),
        ({"segmentLength": "64x"}, "option segmentLength: found '64x'"),
        ({"txnAppId": "a", "txnVersion": "-1"}, "a number from 0"),
        ({"txnVersion": "one"}, "option txnVersion: found 'one'"),
        ({"onUncertain": "guess"}, "fail or repeat or skip"),
        ({"column": "x"}, "options: found column"),
    ],
)
def test_what_is_wrong_is_told_with_its_option(tmp_path: Path, options: dict[str, str], message: str) -> None:
    jlog.create(tmp_path / "journal")
    with pytest.raises(UsageError, match=message):
        parse_write_options({"path": str(tmp_path / "journal"), **options})


def test_a_recording_is_told_by_its_id_or_by_its_channel(tmp_path: Path) -> None:
    archive.create(tmp_path / "archive").close()
    with pytest.raises(UsageError, match="none beside channel"):
        parse_write_options({"path": str(tmp_path / "archive"), "recording": "1", "channel": "aeron:ipc"})


def test_what_is_to_be_made_needs_its_family(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="option family: found none"):
        parse_write_options({"path": str(tmp_path / "new"), "create": "true"})
    with pytest.raises(NotAStore, match="create=true"):
        parse_write_options({"path": str(tmp_path / "new"), "family": "jlog"})
