"""The demo and its parts, on a few of the golden stores."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from everlog.errors import StoreUnavailable
from everlog.spark import demo
from everlog.spark.discovery import find_stores
from everlog.spark.verify import StoreToVerify, verify_stores

GOLDEN = Path(__file__).parent.parent / "golden"
ARCHIVES = (
    "aeron/archive-crash/torn-page-plain",
    "jlog/basic/log",
    "jlog/e_trunc_last/before",
    "nats_streaming/basic_sigterm",
    "nats_streaming/encrypted_AES",
    "nats_streaming/broken/msgs_bad_crc_mid",
)


@pytest.fixture
def few(tmp_path):
    """A folder with some of the golden archives."""
    for name in ARCHIVES:
        target = tmp_path / "golden" / f"{name}.tar.gz"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(GOLDEN / f"{name}.tar.gz", target)
    # What a repair tool left behind is there in some copies of the golden stores; the demo leaves it out.
    journal = tmp_path / "golden" / "jlog" / "basic"
    shutil.copy(journal / "log.tar.gz", journal / "after_jlogctl_repair.tar.gz")
    return tmp_path / "golden"


def test_stores_are_unpacked_by_how_they_are_opened(few, tmp_path):
    output = tmp_path / "out"
    demo.prepare_output(output)
    groups = demo.unpack(few, output)
    found = {g.folder: sorted(s.path for s in find_stores((str(output / "stores" / g.folder),))) for g in groups}
    base = f"{output}/stores"
    assert found == {
        "encrypted": [f"{base}/encrypted/nats_streaming/encrypted_AES"],
        "plain": [
            f"{base}/plain/aeron/archive-crash/torn-page-plain",
            f"{base}/plain/jlog/basic",
            f"{base}/plain/jlog/e_trunc_last",
            f"{base}/plain/nats_streaming/basic_sigterm",
            f"{base}/plain/nats_streaming/broken/msgs_bad_crc_mid",
        ],
    }
    assert (output / "encrypted.key").stat().st_mode & 0o077 == 0


def test_only_a_folder_that_the_demo_made_is_removed(tmp_path):
    foreign = tmp_path / "mine"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("years of work")
    with pytest.raises(StoreUnavailable):
        demo.prepare_output(foreign)
    assert (foreign / "thesis.txt").exists()
    made = tmp_path / "made"
    demo.prepare_output(made)
    (made / "old").write_text("")
    demo.prepare_output(made)
    assert [path.name for path in made.iterdir()] == [demo.MARK]


def test_without_golden_stores_the_demo_ends_with_one_line(tmp_path, capsys):
    assert demo.main(["--golden", str(tmp_path), "--output", str(tmp_path / "out")]) == 2
    assert "golden" in capsys.readouterr().err


@pytest.mark.spark
def test_the_pipeline_counts_what_is_whole_and_shows_what_is_not(spark, few, tmp_path):
    output = tmp_path / "out"
    demo.prepare_output(output)
    text = io.StringIO()
    demo._pipeline(Console(file=text, width=200), spark, output, demo.unpack(few, output))
    shown = text.getvalue()
    # By hand: 2867 in the torn archive, 90 + 59 in the journals, 109 + 6 + 108 in the streaming stores.
    assert "6 stores, 3 of them damaged: 3,239 records" in shown
    assert "3,239 rows in Parquet, 3,239 read from the stores" in shown
    assert "torn-frame" in shown
    assert "bad-crc" in shown
    assert spark.read.parquet(str(output / "parquet")).where("family = 'jlog'").count() == 149


@pytest.mark.spark
def test_verify_gives_a_row_for_each_store_with_its_faults(spark, golden, tmp_path):
    good, bad = golden("jlog/basic/log"), golden("jlog/e_trunc_last/before")
    stores = [StoreToVerify(store) for path in (good, bad) for store in find_stores((str(path),))]
    stores.append(StoreToVerify(type(stores[0].store)(str(tmp_path / "gone"), "jlog")))
    rows = {row.store: row for row in verify_stores(spark, stores).collect()}
    whole, torn, gone = (rows[stores[i].store.path] for i in range(3))
    assert (whole.ok, whole.records, whole.error) == (True, 90, None)
    assert not torn.ok
    assert "torn-record" in [fault.code for fault in torn.faults]
    assert "no such file" in gone.error
