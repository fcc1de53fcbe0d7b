"""Which file system a file is on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from everlog.core.files import mounts
from everlog.core.files.mounts import file_system_of


def test_the_kind_is_what_the_mount_says(tmp_path: Path) -> None:
    with open("/proc/self/status", "rb") as file:
        assert file_system_of(file.fileno()) == "proc"
    with (tmp_path / "file").open("wb") as file:
        device = os.fstat(file.fileno()).st_dev
        listed = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        kinds = {line[line.index("-") + 1] for line in listed if line[2] == f"{os.major(device)}:{os.minor(device)}"}
        assert file_system_of(file.fileno()) in (kinds or {None})


@pytest.mark.parametrize("text", [None, "", "21 1 0:3\n21 1 0:3 -\nno mount\n"])
def test_a_system_that_does_not_tell_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    listing = tmp_path / "mountinfo"
    if text is not None:
        listing.write_text(text)
    monkeypatch.setattr(mounts, "_MOUNTS", str(listing))
    mounts._kind.cache_clear()
    try:
        with listing.parent.joinpath("file").open("wb") as file:
            assert file_system_of(file.fileno()) is None
    finally:
        mounts._kind.cache_clear()
