"""What the real server wrote, message by message, against what the real server said."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Golden = Callable[[str], Path]
Truth = Callable[[str], dict[str, Any]]

OPTIONS: dict[str, dict[str, Any]] = {
    "basic_sigterm": {},
    "lim_max_msgs": {"max_msgs": 20},
    "lim_default_slice": {"max_msgs": "20"},
    "lim_max_age": {},
    "archive": {"max_msgs": 20},
    "compacted": {},
    "encrypted_AES": {},
    "cluster_1node": {},
}


def store_path(golden: Golden, name: str) -> Path:
    return golden(name) / "store" if name == "cluster_1node" else golden(name)


@pytest.mark.parametrize("name", OPTIONS)
def test_every_message_is_what_and_where_the_truth_says(name: str, golden: Golden, truth: Truth, opened: Any) -> None:
    expected = truth(f"{name}.truth")
    with opened(store_path(golden, name), **OPTIONS[name]) as store:
        infos = {info.name: info for info in store.streams()}
        assert sorted(infos) == sorted(expected["channels"])
        for channel, said in expected["channels"].items():
            info = infos[channel]
            assert info.first == str(said["first_seq"])
            assert info.last == str(said["last_seq"])
            assert info.end == str(said["last_seq"] + 1)
            assert (info.record_count, info.byte_count) == (said["count"], said["bytes"])
            assert info.details["slices"] == len(said["slices"])
            assert info.details["subscriptions"] == len(said["subs"])
            found = [
                (
                    r.fields["sequence"],
                    r.timestamp_ns,
                    r.fields["length"],
                    f"{zlib.crc32(r.payload):08x}",
                    f"msgs.{r.fields['slice']}.dat",
                    r.fields["offset"],
                    r.fields["reply"],
                    r.fields["subject"],
                )
                for r in store.read(channel)
            ]
            assert found == [
                (
                    m["seq"],
                    m["timestamp"],
                    m["len"],
                    m["data_crc32"],
                    m["slice"],
                    m["offset"],
                    m.get("reply", ""),
                    channel,
                )
                for m in said["messages"]
            ]


@pytest.mark.parametrize("name", OPTIONS)
def test_server_clients_and_subscriptions_are_what_the_truth_says(
    name: str, golden: Golden, truth: Truth, opened: Any
) -> None:
    expected = truth(f"{name}.truth")
    info = opened(store_path(golden, name), **OPTIONS[name]).info()
    names = {"ClusterID": "cluster_id", "SubClose": "sub_close", "AcksSubs": "acks_subs", "NodeID": "node_id"}
    server = {names.get(key, key.lower()): value for key, value in expected["server_info"].items()}
    assert {key: value for key, value in info["server_info"].items() if value} == server
    assert info["clients"] == sorted(expected["clients"], key=lambda client: client["id"])
    for channel, said in expected["channels"].items():
        subscriptions = [dict(s) for s in info["channels"][channel]["subscriptions"]]
        for subscription in subscriptions:
            del subscription["kind"]
        assert subscriptions == said["subs"]
        slices = {
            str(s["number"]): {
                "dat_size": s["dat_size"],
                "count": s["messages"],
                "idx_size": s["idx_size"],
                "idx_count": s["messages"],
            }
            for s in info["channels"][channel]["slices"]
        }
        assert slices == said["slices"]


@pytest.mark.parametrize("name", OPTIONS)
def test_the_logs_are_what_the_truth_says_record_by_record(
    name: str, golden: Golden, truth: Truth, opened: Any
) -> None:
    from everlog.core.files.storage import LocalStorage
    from everlog.kernel.crc32 import Crc32
    from everlog.nats_streaming.format.clients import client_events
    from everlog.nats_streaming.format.subscriptions import EVENT_NAMES, subscription_events

    expected = truth(f"{name}.truth")
    storage = LocalStorage(store_path(golden, name))
    clients = [
        {"offset": e.offset, "type": "add" if e.info else "del", "size": e.length, "crc_ok": True, "id": e.id}
        for e in client_events(storage, Crc32(), True, pytest.fail)
    ]
    assert clients == expected["clients_log"]
    for channel, said in expected["channels"].items():
        with storage.open(f"{channel}/subs.dat") as file:
            events = []
            for e in subscription_events(file, "subs.dat", Crc32(), True, pytest.fail, channel):
                kind = EVENT_NAMES[e.type]
                event = {"offset": e.offset, "type": kind, "size": e.length, "crc_ok": True, "id": e.id}
                events.append(event if e.sequence is None else event | {"seq": e.sequence})
        assert events == [{**event, "type": _short(event["type"])} for event in said["subs_log"]]


def _short(kind: str) -> str:
    return {"del": "delete", "upd": "update"}.get(kind, kind)


@pytest.mark.parametrize("name", ["basic_sigterm"])
def test_monitoring_after_a_restart_agrees(name: str, golden: Golden, truth: Truth, opened: Any) -> None:
    said = truth(f"{name}.truth")["monitoring_after_restart"]["serverz"]
    with opened(golden(name)) as store:
        infos = store.streams()
        assert sum(info.record_count or 0 for info in infos) == said["total_msgs"]
        assert sum(info.byte_count for info in infos) == said["total_bytes"]


@pytest.mark.parametrize("name", ["lim_max_msgs", "lim_default_slice", "archive", "lim_max_age"])
def test_without_limits_everything_on_disk_is_there(name: str, golden: Golden, truth: Truth, opened: Any) -> None:
    expected = truth(f"{name}.truth")
    with opened(golden(name)) as store:
        for channel, said in expected["channels"].items():
            removed = [(m["seq"], m["timestamp"], m["data_crc32"]) for m in said["on_disk_but_removed_by_limits"]]
            kept = [(m["seq"], m["timestamp"], m["data_crc32"]) for m in said["messages"]]
            found = [
                (r.fields["sequence"], r.timestamp_ns, f"{zlib.crc32(r.payload):08x}") for r in store.read(channel)
            ]
            assert found == removed + kept


def test_the_limits_say_how_many_messages_they_hide(golden: Golden, truth: Truth, opened: Any) -> None:
    said = truth("lim_default_slice.truth")["channels"]["lim"]
    (info,) = opened(golden("lim_default_slice"), max_msgs=20).streams()
    assert info.details["removed_by_limits"] == len(said["on_disk_but_removed_by_limits"]) == 30
    assert info.details["removed_bytes"] == sum(m["rec_size"] + 40 for m in said["on_disk_but_removed_by_limits"])


def test_slices_that_were_put_aside_are_read_on_request(golden: Golden, truth: Truth, opened: Any) -> None:
    expected = truth("archive.truth")
    with opened(golden("archive"), include_bak=True) as store:
        for channel in expected["channels"]:
            aside = [
                (m["seq"], m["timestamp"], m["data_crc32"])
                for file, messages in sorted(expected["bak_messages"].items())
                if file.startswith(channel + "/")
                for m in messages
            ]
            found = [
                (r.fields["sequence"], r.timestamp_ns, f"{zlib.crc32(r.payload):08x}") for r in store.read(channel)
            ]
            assert found[: len(aside)] == aside
            assert [f[0] for f in found] == list(range(1, expected["channels"][channel]["last_seq"] + 1))


def test_an_age_limit_hides_what_was_too_old_at_a_given_time(golden: Golden, truth: Truth, opened: Any) -> None:
    said = truth("lim_max_age.truth")["channels"]["lim"]["messages"]
    now = said[4]["timestamp"] + 3 * 10**9
    with opened(golden("lim_max_age"), max_age="3s", now_ns=now) as store:
        (info,) = store.streams()
        # The fifth message is exactly as old as the limit allows no more.
        assert [r.fields["sequence"] for r in store.read("lim")] == [m["seq"] for m in said[5:]]
        assert info.record_count == len(said) - 5


def test_a_channel_whose_messages_all_expired_keeps_its_end(golden: Golden, opened: Any) -> None:
    with opened(golden("lim_max_age"), max_age="3s") as store:
        (info,) = store.streams()
        assert (info.first, info.last, info.end, info.record_count, info.byte_count) == (None, None, "34", 0, 0)
        assert list(store.read("lim")) == []


def test_another_polynomial_is_an_option(golden: Golden, opened: Any, reading: Any) -> None:
    path = golden("crc_poly_castagnoli")
    for polynomial in (2197175160, "2197175160", "0x82F63B78"):
        with opened(path, crc_poly=polynomial) as store:
            assert reading(store, "p").sequences == [1, 2, 3, 4, 5]
            assert store.verify().ok
            assert store.info()["server_info"]["cluster_id"] == "gold-cluster"


def test_the_wrong_polynomial_is_one_fault_that_names_the_right_one(golden: Golden, opened: Any, reading: Any) -> None:
    with opened(golden("crc_poly_castagnoli")) as store:
        found = reading(store, "p")
        assert found.sequences == []
        assert found.codes == [("wrong-polynomial", "p/msgs.1.dat", 4)]
        assert "2197175160" in found.faults[0].repair
        report = store.verify()
        assert [(f.code, f.file, f.offset) for f in report.faults] == [("wrong-polynomial", "server.dat", 4)]
        assert report.record_count == 5  # the rest is checked with the polynomial that fits


@pytest.mark.parametrize("name", [*OPTIONS, "encrypted_CHACHA"])
def test_undamaged_stores_have_no_fault(name: str, golden: Golden, opened: Any) -> None:
    report = opened(store_path(golden, name)).verify()
    assert report.ok
    assert {f.code for f in report.faults} <= {"encrypted"}
