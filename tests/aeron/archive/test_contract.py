"""What every store must do, done by a small archive with fragments, checksums, a gap and a torn tail."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from everlog.core.store import Level
from everlog.testing.contract import Subject, check_store


def test_a_small_archive_keeps_the_contract(golden_archive: Callable[[str], Path], tmp_path: Path) -> None:
    source = golden_archive("archive-basic/archive-checksum-crc32")
    path = tmp_path / "archive"
    path.mkdir()
    for name in ("9-0.rec", "13-0.rec"):
        shutil.copy(source / name, path)
    # Without a catalog these two are all that there is; with it, the others would be missing segments.
    check_store(Subject(path, levels=(Level.RECORD, Level.FRAME)))
