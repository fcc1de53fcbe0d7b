"""Options of a write, as Spark gives them: text, in any case of letters."""

from __future__ import annotations

from pathlib import Path

import pytest

import tests
from everlog import jlog
from everlog.aeron import archive
from everlog.core.appending.target_name import TargetName
from everlog.core.files.durability import Durability
from everlog.errors import NotAStore, UsageError
from everlog.pipelines.append.options import option_names, parse_write_options

DOCS = tests.ROOT / "docs" / "spark.md"


@pytest.mark.parametrize("name", option_names())
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
    expected = {"stream_id": 7, "term_length": 65536, "segment_length": 1 << 20, "liveness_timeout_s": 2.0}
    assert found.given == expected
    assert found.target.text == f"{path}?channel=aeron:ipc&streamId=7"


def test_two_recordings_of_one_archive_are_two_targets(tmp_path: Path) -> None:
    path = tmp_path / "archive"
    archive.create(path).close()
    targets = {parse_write_options({"path": str(path), "recording": n}).target.text for n in ("0", "1")}
    assert targets == {f"{path}?recording=0", f"{path}?recording=1"}


@pytest.mark.parametrize(
    "spelled", [{}, {"streamId": "1001"}, {"channel": "aeron:ipc"}, {"channel": " aeron:ipc", "streamid": "01001"}]
)
def test_spellings_of_one_recording_are_one_target_with_all_names_that_it_had(
    tmp_path: Path, spelled: dict[str, str]
) -> None:
    path = tmp_path / "archive"
    archive.create(path).close()
    found = parse_write_options({"path": str(path), **spelled}).target
    assert found.text == f"{path}?channel=aeron:ipc&streamId=1001"
    given = ("", "?channel=aeron:ipc", "?streamId=1001", "?channel=aeron:ipc&streamId=1001")
    assert all(found.is_named(f"{path}{which}") for which in given)
    assert not any(found.is_named(f"{path}{which}") for which in ("?streamId=7", "?recording=0", "2"))


def test_a_link_to_a_store_has_the_stores_staging_folder(tmp_path: Path) -> None:
    jlog.create(tmp_path / "journal")
    (tmp_path / "link").symlink_to("journal")
    (tmp_path / "disk").symlink_to(tmp_path)
    for name in ("journal", "link", "disk/journal", "disk/link"):
        found = parse_write_options({"path": str(tmp_path / name)})
        assert found.staging == f"{tmp_path}/journal.everlog-staging"
        assert found.target == TargetName(f"{tmp_path}/journal", f"{tmp_path}/journal")


def test_notes_under_a_links_name_are_not_passed_over(tmp_path: Path) -> None:
    jlog.create(tmp_path / "journal")
    (tmp_path / "link").symlink_to("journal")
    older = tmp_path / "link.everlog-staging"
    older.mkdir()
    path = {"path": str(tmp_path / "link")}
    assert parse_write_options(path).staging == f"{tmp_path}/journal.everlog-staging"
    (older / "q.note").write_text("{}")
    with pytest.raises(UsageError, match=f"notes of earlier writes lie in {older}, .*stagingPath={older}"):
        parse_write_options(path)
    assert parse_write_options({**path, "stagingPath": str(older)}).staging == str(older)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": ""}, "path is missing"),
        ({"path": "s3://bucket/x"}, "a folder on the driver's machine"),
        ({"create": "maybe"}, "option create must be true or false, not 'maybe'"),
        ({"family": "nats-streaming"}, "option family must be .*, not 'nats-streaming'"),
        ({"family": "aeron-archive"}, "is a store of jlog, not of aeron-archive"),
        ({"segmentLength": "64x"}, "option segmentLength must be bytes.*, not '64x'"),
        ({"txnAppId": "a", "txnVersion": "-1"}, "an increasing version from 0"),
        ({"txnVersion": "one"}, "option txnVersion must be a whole number, not 'one'"),
        ({"onUncertain": "guess"}, "must be 'fail', 'repeat' or 'skip', not 'guess'"),
        ({"column": "x"}, "unknown option column"),
    ],
)
def test_what_is_wrong_is_told_with_its_option(tmp_path: Path, options: dict[str, str], message: str) -> None:
    jlog.create(tmp_path / "journal")
    with pytest.raises(UsageError, match=message):
        parse_write_options({"path": str(tmp_path / "journal"), **options})


def test_a_recording_is_told_by_its_id_or_by_its_channel(tmp_path: Path) -> None:
    archive.create(tmp_path / "archive").close()
    with pytest.raises(UsageError, match="option recording excludes channel"):
        parse_write_options({"path": str(tmp_path / "archive"), "recording": "1", "channel": "aeron:ipc"})


@pytest.mark.parametrize("name", ["ownerTimeout", "livenessTimeout"])
@pytest.mark.parametrize("value", ["nan", "-1", "inf", "soon", "s"])
def test_a_timeout_is_a_number_of_seconds(tmp_path: Path, name: str, value: str) -> None:
    archive.create(tmp_path / "archive").close()
    with pytest.raises(UsageError, match=f"option {name} must be seconds, .*, not '{value}'"):
        parse_write_options({"path": str(tmp_path / "archive"), name: value})


def test_what_is_to_be_made_needs_its_family(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="option family is missing; it says what to create"):
        parse_write_options({"path": str(tmp_path / "new"), "create": "true"})
    with pytest.raises(NotAStore, match="create=true"):
        parse_write_options({"path": str(tmp_path / "new"), "family": "jlog"})
