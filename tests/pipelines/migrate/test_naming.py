"""Names and places on the way from NATS Streaming to JetStream, without a server."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from everlog.errors import UsageError
from everlog.pipelines.migrate.connection import Connection
from everlog.pipelines.migrate.consumers import plan_consumers
from everlog.pipelines.migrate.naming import SubjectMapping, distinct_names, map_subject


def test_names_have_no_letter_that_jetstream_refuses_and_no_two_are_the_same() -> None:
    assert distinct_names(["a.b", "x y", "A", "a:b*c>d/e\\f"]) == {
        "a.b": "a_b",
        "x y": "x_y",
        "A": "A",
        "a:b*c>d/e\\f": "a_b_c_d_e_f",
    }
    assert distinct_names(["a.b", "a_b", "c"], "p-") == {
        "a.b": f"p-a_b_{zlib.crc32(b'a.b'):08x}",
        "a_b": f"p-a_b_{zlib.crc32(b'a_b'):08x}",
        "c": "p-c",
    }
    with pytest.raises(UsageError, match="at most 255"):
        distinct_names(["x" * 256])


@pytest.mark.parametrize(
    ("mapping", "subject", "expected"),
    [
        ("a=b", "a", "b"),
        ("a=b", "a.c", None),
        ("a.*=b.*.c", "a.x", "b.x.c"),
        ("*.mid.*=to.*.*", "x.mid.y", "to.x.y"),
        ("a.>=b.>", "a.x.y", "b.x.y"),
        ("a.>=b.>", "a", None),
        ("a.*=b.*", "a", None),
        ("*.>=x.*.y.>", "1.2.3", "x.1.y.2.3"),
    ],
)
def test_wildcards_of_a_mapping_stand_for_the_same_tokens(mapping: str, subject: str, expected: str | None) -> None:
    assert SubjectMapping.parse(mapping).apply(subject) == expected


def test_the_first_mapping_that_fits_counts_and_subjects_stay_subjects() -> None:
    mappings = [SubjectMapping.parse("a.*=one.*"), SubjectMapping.parse("a.b=two")]
    assert map_subject("a.b", mappings) == "one.b"
    assert map_subject("c", mappings, "pre.") == "pre.c"
    assert map_subject("_everlog.gap", [SubjectMapping.parse("_everlog.>=old.>")]) == "old.gap"
    assert (map_subject("_everlog", []), map_subject("$JSON", [])) == ("_everlog", "$JSON")
    for wrong in ("a b", "a..b", "a.*", ">", "_everlog.gap", "_everlog.import.x.y", "$JS.API.INFO", "$SYS.a"):
        with pytest.raises(UsageError):
            map_subject(wrong, [])


@pytest.mark.parametrize("text", ["a", "=b", "a=", "a.*=b", "a=b.*", "a.>.b=c.>", "a..b=c", "a.*=b.>"])
def test_what_is_no_mapping_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="FROM=TO"):
        SubjectMapping.parse(text)


def sub(number: int, kind: str, client: str, durable: str = "", group: str = "", **more: Any) -> dict[str, Any]:
    told = {"id": number, "kind": kind, "client_id": client, "durable_name": durable, "qgroup": group}
    return told | {"last_sent": 0, "pending": [], "max_in_flight": 10, "ack_wait_secs": 30} | more


def test_durables_of_the_same_name_are_told_apart_by_their_clients() -> None:
    plans = plan_consumers(
        [
            sub(1, "durable", "c1", "d", last_sent=9, pending=[4, 9]),
            sub(2, "offline durable", "c2", "d", last_sent=7),
            sub(3, "durable", "c1", "other.one", last_sent=3, pending=[1]),
            sub(4, "plain", "c9", last_sent=12, pending=[12]),
        ]
    )
    assert [(p.name, p.floor, p.last_sent, p.pending) for p in plans.consumers] == [
        ("c1_d", 3, 9, (4, 9)),
        ("other_one", 0, 3, (1,)),
        ("c2_d", 7, 7, ()),
    ]
    assert [p.start("redeliver") for p in plans.consumers] == [4, 1, 8]
    assert [p.start("skip") for p in plans.consumers] == [10, 4, 8]
    assert ([s["id"] for s in plans.left_out], plans.last_sent) == ([4], 12)


def test_members_of_a_queue_group_share_a_consumer_and_their_sums() -> None:
    subs = [
        sub(1, "durable queue", "c1", group="d:g", last_sent=9, pending=[3], max_in_flight=5),
        sub(2, "durable queue", "c2", group="d:g", last_sent=11, pending=[7, 10], ack_wait_secs=60),
        sub(3, "queue", "c3", group="g", last_sent=2),
    ]
    plans = plan_consumers(subs)
    group, loose = plans.consumers
    assert (group.name, group.floor, group.last_sent, group.pending) == ("d_g", 2, 11, (3, 7, 10))
    assert (group.max_ack_pending, group.ack_wait_s, group.clients) == (15, 60, ("c1", "c2"))
    assert (loose.name, loose.kind, loose.start("redeliver")) == ("g", "queue group", 3)
    assert [p.name for p in plan_consumers(subs, queue_groups=False).consumers] == ["d_g"]


def test_a_durable_and_a_group_of_one_name_get_two_consumers() -> None:
    plans = plan_consumers([sub(1, "durable", "c", "w"), sub(2, "queue", "q", group="w")])
    assert sorted(p.name for p in plans.consumers) == ["c_w", "w"]
    subs = [
        sub(1, "queue", "", group="w", last_sent=5),
        sub(2, "durable queue", "", group="w", last_sent=7),
        sub(3, "durable", "c", "w_2", last_sent=9),
    ]
    names = {(p.kind, p.durable): p.name for p in plan_consumers(subs).consumers}
    assert len(set(names.values())) == 3
    assert names["durable", "w_2"] == "w_2"
    assert {(p.kind, p.durable): p.name for p in plan_consumers(subs[::-1]).consumers} == names
    same = plan_consumers([sub(1, "durable queue", "c", group="d:g"), sub(2, "queue", "q", group="d_g")])
    assert len({p.name for p in same.consumers}) == 2


def test_a_connection_holds_nothing_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Connection(servers=("nats://host:4222",))
    monkeypatch.setenv("NATS_USER", "me")
    monkeypatch.setenv("NATS_PASSWORD", "secret")
    assert connection.settings()["password"] == "secret"
    assert "secret" not in repr(connection)
    monkeypatch.setenv("NATS_TOKEN", "token")
    assert connection.settings()["token"] == "token"
    for wrong in ("nats://token@host", "http://host", "nats://", "host:4222"):
        with pytest.raises(UsageError):
            Connection(servers=(wrong,))
    with pytest.raises(UsageError, match="certificate"):
        Connection(servers=("tls://host",), cert_file="c")
