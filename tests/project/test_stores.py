"""Which family a folder is of."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import everlog
from everlog.core.files.storage import LocalStorage
from everlog.stores import detect

FOLDERS = {
    "aeron/archive": "aeron-archive",
    "aeron/cluster": "aeron-cluster",
    "aeron/transport": "aeron-driver",
    "jlog": "jlog",
    "nats_streaming": "nats-streaming",
}
"""How a golden store's name begins, and its family."""


def test_every_golden_store_is_of_its_family(golden: Any) -> None:
    (family,) = {family for begin, family in FOLDERS.items() if golden.name.startswith(begin)}
    assert detect(LocalStorage(golden.path)) == family


def test_a_folder_of_other_things_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing of ours")
    (tmp_path / "metastore").mkdir()
    with pytest.raises(everlog.NotAStore, match=r"no store here: .* has none of the files of"):
        everlog.open_store(tmp_path)


def test_an_unknown_family_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(everlog.UsageError, match=r"family must be aeron-archive or .* or nats-streaming.*, not"):
        everlog.open_store(tmp_path, family="kafka")


@pytest.mark.parametrize(
    ("name", "package"),
    [("archive.catalog", "aeron"), ("cnc.dat", "aeron"), ("metastore", "jlog"), ("server.dat", "nats_streaming")],
)
def test_only_the_family_at_hand_is_imported(tmp_path: Path, name: str, package: str) -> None:
    (tmp_path / name).write_bytes(b"\1\0\0\0" + bytes(12))
    script = (
        "import sys\nfrom everlog.core.files.storage import LocalStorage\nfrom everlog.stores import detect\n"
        "detect(LocalStorage(sys.argv[1]))\n"
        "parts = [m.split('.') for m in sys.modules if m.startswith('everlog.') and m.endswith('.store')]\n"
        "print(*sorted({part[1] for part in parts}))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, check=True, text=True)
    assert set(done.stdout.split()) & {"aeron", "jlog", "nats_streaming"} == {package}
