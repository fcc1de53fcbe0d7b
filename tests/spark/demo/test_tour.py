"""The demo and its parts, on a few of the golden stores."""

from __future__ import annotations

import io
import re
import shutil
import sys
from collections import Counter, defaultdict
from datetime import UTC, datetime

import pytest
from rich.console import Console

import tests
from everlog.discovery import find_stores
from everlog.errors import StoreUnavailable
from everlog.spark.demo import aeron as demo_aeron
from everlog.spark.demo import tour as demo
from everlog.spark.jobs.verify import StoreToVerify, verify_stores

GOLDEN = tests.GOLDEN
ARCHIVES = (
    "aeron/archive-crash/torn-page-plain",
    "jlog/basic/log",
    "jlog/e_trunc_last/before",
    "nats_streaming/basic_sigterm",
    "nats_streaming/encrypted_AES",
    "nats_streaming/broken/msgs_bad_crc_mid",
)
CLUSTERS = (
    "cluster-3node/node0",
    "cluster-3node/node1",
    "cluster-3node/aeron-dir-cnc-node0",
    "cluster-killed/killed-leader",
    "cluster-killed/new-leader",
    "cluster-killed/stuck-follower",
    "transport/aeron-dir",
)
_SENT = r"msg .* ts=(\d+) session=(\d+) len=(\d+)"
"""A client's message in the service log of the cluster of three."""
_LOSSY = "aeron:udp?endpoint=localhost:18301|term-length=64k|alias=lossy"


def _copy(names, golden):
    for name in names:
        target = golden / f"{name}.tar.gz"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(GOLDEN / f"{name}.tar.gz", target)


@pytest.fixture
def few(tmp_path):
    """A folder with some of the golden archives."""
    _copy(ARCHIVES, tmp_path / "golden")
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


def test_the_pipeline_counts_what_is_whole_and_shows_what_is_not(spark, few, tmp_path):
    output = tmp_path / "out"
    demo.prepare_output(output)
    text = io.StringIO()
    demo._pipeline(Console(file=text, width=200), spark, output, demo.unpack(few, output))
    shown = text.getvalue()
    # By hand: 2867 in the torn archive, 90 + 59 in the journals, 109 + 6 + 108 in the streaming stores.
    assert "6 stores, 3 of them damaged; read 3,239 records" in shown
    assert "3,239 rows in Parquet, 3,239 read from the stores" in shown
    assert "torn-frame" in shown
    assert "bad-crc" in shown
    assert spark.read.parquet(str(output / "parquet")).where("family = 'jlog'").count() == 149


@pytest.fixture(scope="module")
def clusters(spark, tmp_path_factory):
    """The demo of clusters and drivers: its output folder, and what it showed."""
    output = tmp_path_factory.mktemp("clusters") / "out"
    others = ["jlog/basic/log", "nats_streaming/basic_sigterm"]
    _copy([*others, *(f"aeron/{name}" for name in CLUSTERS)], output.parent / "golden")
    demo.prepare_output(output)
    text = io.StringIO()
    demo._pipeline(Console(file=text, width=200), spark, output, demo.unpack(output.parent / "golden", output))
    return output, text.getvalue()


def _service_log(name, pattern, unit):
    """Cluster second and session to messages and bytes of the clients, as the cluster's own service wrote it down."""
    found = defaultdict(lambda: (0, 0))
    for line in (GOLDEN / "aeron" / name).read_text().splitlines():
        if match := re.match(pattern, line):
            time, session, length = map(int, match.groups())
            second = datetime.fromtimestamp(time // unit, UTC).strftime("%Y-%m-%d %H:%M:%S")
            messages, size = found[second, session]
            found[second, session] = messages + 1, size + length
    return dict(found)


@pytest.mark.long
def test_client_messages_over_time_are_those_that_the_clusters_services_got(spark, clusters):
    output, _ = clusters
    spark.read.parquet(str(output / "parquet")).createOrReplaceTempView("messages")
    rows = spark.sql(demo_aeron.SESSIONS).collect()
    told = {
        "cluster-3node": ("cluster-3node/service-log-0.txt", _SENT, 10**3),
        "cluster-killed": ("cluster-killed/service-log-new-leader-0.txt", r"msg \d+ (\d+) (\d+) (\d+)", 10**9),
    }
    for cluster, (name, pattern, unit) in told.items():
        found = {(r.second, r.session): (r.messages, r.bytes) for r in rows if r.cluster == cluster}
        assert found == _service_log(name, pattern, unit)
    # The follower was stopped first and the leader killed later, so that only the new one has what term 1 brought.
    held = {(row.term, row.fewest, row.most) for row in rows if row.cluster == "cluster-killed"}
    assert held == {(0, 2, 3), (0, 2, 2), (1, 1, 1)}
    assert {(row.fewest, row.most) for row in rows if row.cluster == "cluster-3node"} == {(2, 2)}


@pytest.mark.long
def test_the_members_of_each_cluster_are_compared_with_the_one_that_went_on_longest(clusters):
    output, shown = clusters
    plain = output / "stores" / "plain" / "aeron"
    found = {c.cluster: c for c in demo_aeron.compare_clusters(_ends_of_logs(plain))}
    assert list(found) == ["cluster-3node", "cluster-killed"]
    whole, killed = found["cluster-3node"], found["cluster-killed"]
    # What the service was told of: the log holds nothing else.
    entries = ("newTerm ", "open ", "close ", "msg ", "timer ", "snapshot ")
    lines = (GOLDEN / "aeron/cluster-3node/service-log-0.txt").read_text().splitlines()
    assert (whole.report.faults, whole.report.record_count) == ([], sum(line.startswith(entries) for line in lines))
    assert killed.nodes == ("new-leader", "killed-leader", "stuck-follower")
    assert killed.report.ok
    assert Counter(fault.code for fault in killed.report.faults) == {"replica-behind": 4}
    assert "no term 1 on member 0" in shown
    assert "note: 4 × replica-behind" in shown


def _ends_of_logs(folder):
    nodes = {"cluster-3node": {"node0": 7, "node1": 7}, "cluster-killed": {"killed-leader": 5, "new-leader": 9}}
    nodes["cluster-killed"]["stuck-follower"] = 2
    for cluster, ends in nodes.items():
        for node, end in ends.items():
            store = str(folder / cluster / node / "cluster")
            yield {"store": store, "family": "aeron-cluster", "stream": "log", "last_address": str(end)}
            yield {"store": store, "family": "aeron-cluster", "stream": "snapshot-1", "last_address": "99"}


@pytest.mark.long
def test_the_drivers_counters_are_those_that_the_real_tool_printed(clusters):
    output, shown = clusters
    path = str(output / "stores" / "plain" / "aeron" / "transport" / "aeron-dir")
    (driver,) = demo_aeron.driver_counters([path])
    lines = (GOLDEN / "aeron/transport/AeronStat.txt").read_text().splitlines()
    printed = [m.groups() for line in lines if (m := re.match(r" *(\d+): +([\d,]+) - (.*)", line))]
    values = {int(number): int(value.replace(",", "")) for number, value, _ in printed}
    assert driver.system == {number: values[number] for number in range(46) if number not in (34, 43)}
    labels = {label: int(value.replace(",", "")) for _, value, label in printed}
    assert driver.others[0] == ("pub-lmt: 9 1669679053 1 " + _LOSSY, 482_368)
    assert all(labels[label] == value for label, value in driver.others)
    assert re.search(r"NAKs received +│ +0 │ +305 │", shown)


def test_clusters_and_drivers_are_verified_loaded_and_written_like_all_others(spark, clusters):
    output, shown = clusters
    assert "aeron-cluster: 5 stores" in shown
    assert "aeron-driver: 2 stores" in shown
    written = spark.read.parquet(str(output / "parquet"))
    # The service's log again: what it got of the clients, in both nodes' logs.
    sent = written.where("family = 'aeron-cluster' AND store LIKE '%cluster-3node%' AND kind = 'session-message'")
    assert sent.where("cluster_session_id > 0").count() == 2 * sum(
        count for count, _ in _service_log("cluster-3node/service-log-0.txt", _SENT, 10**3).values()
    )
    assert written.where("family = 'aeron-driver'").count() > 0


def test_verify_gives_a_row_for_each_store_with_its_faults(spark, golden, tmp_path):
    good, bad = golden("jlog/basic/log"), golden("jlog/e_trunc_last/before")
    stores = [StoreToVerify(store) for path in (good, bad) for store in find_stores((str(path),))]
    stores.append(StoreToVerify(type(stores[0].store)(str(tmp_path / "gone"), "jlog")))
    whole, torn, gone = verify_stores(spark, stores)
    assert (whole["ok"], whole["records"], whole["error"]) == (True, 90, None)
    assert not torn["ok"]
    assert "torn-record" in [fault["code"] for fault in torn["faults"]]
    assert "no such file" in gone["error"]


def test_without_the_library_for_the_page_with_pictures_one_line_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    text = io.StringIO()
    demo.write_report(Console(file=text, width=200), None, tmp_path)
    assert text.getvalue().splitlines() == ["no page with charts: they need pip install 'everlog[plot]'"]
    assert list(tmp_path.iterdir()) == []
