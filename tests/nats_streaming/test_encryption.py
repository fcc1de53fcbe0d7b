"""Keys: what they open, and that they show nowhere."""

from __future__ import annotations

import hashlib
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from everlog.core.report import Fault
from everlog.errors import KeyRefused
from everlog.nats_streaming.options import NatsStreamingOptions
from everlog.nats_streaming.reading.encryption import MasterKey, load_master_key

Golden = Callable[[str], Path]
SECRET = "hush, a secret"
PLAIN_CHACHA = [b"first plain text", b"", b"a longer message, " * 12, b"\x00\x01\x02\xff binary", b"x"]


def channel_key(secret: bytes, channel: bytes) -> bytes:
    """The rule, by hand."""
    return hashlib.sha256(bytes(33 + len(channel)) + hashlib.sha256(secret).digest() + b"." + channel).digest()


def seal(cipher: int, data: bytes, number: int = 1, channel: bytes = b"foo", secret: bytes = SECRET.encode()) -> bytes:
    nonce = number.to_bytes(12, "big")
    kind = AESGCM if cipher == 1 else ChaCha20Poly1305
    return bytes([cipher]) + nonce + kind(channel_key(secret, channel)).encrypt(nonce, data, None)


def sealed_store(made: Any, root: Path, payloads: list[bytes]) -> Path:
    dat, idx = made.version, made.version
    for k, data in enumerate(payloads, 1):
        message = made.message(k, data)
        idx += made.entry(k, len(dat), len(message))
        dat += made.record(message)
    return made.store(root, dat_1=dat, idx_1=idx)


def test_aes_of_the_real_server_opens(golden: Golden, truth: Any, opened: Any) -> None:
    said = truth("encrypted_AES.truth")["plain_messages"]
    with opened(golden("encrypted_AES"), encryption_key="mykey") as store:
        found = [(r.fields["sequence"], r.fields["length"], f"{zlib_crc(r.payload)}") for r in store.read("enc.ch")]
    assert found == [(m["seq"], m["len"], m["data_crc32"]) for m in said]


def zlib_crc(data: bytes) -> str:
    import zlib

    return f"{zlib.crc32(data):08x}"


def test_chacha_of_the_real_server_opens(golden: Golden, opened: Any) -> None:
    with opened(golden("encrypted_CHACHA"), encryption_key="mykey") as store:
        records = list(store.read("enc.chacha"))
        assert [r.payload for r in records] == PLAIN_CHACHA
        assert [r.fields["reply"] for r in records] == ["", "", "answers.here", "", ""]
        assert store.verify().faults == []


def test_both_ciphers_and_plain_data_mix_in_one_channel(made: Any, tmp_path: Path, opened: Any, reading: Any) -> None:
    payloads = [seal(1, b"one", 1), seal(2, b"two", 2), b"plain", b"", seal(1, b"", 5)]
    with opened(sealed_store(made, tmp_path / "s", payloads), encryption_key=SECRET) as store:
        found = reading(store)
        assert found.payloads == [b"one", b"two", b"plain", b"", b""]
        assert [r.fields["length"] for r in found.records] == [3, 3, 5, 0, 0]
        assert found.faults == []


def test_data_that_does_not_open_is_a_fault_and_not_given(made: Any, tmp_path: Path, opened: Any, reading: Any) -> None:
    payloads = [seal(1, b"one", 1), seal(2, b"spoilt", 2)[:-1] + b"!", b"\x01short", seal(2, b"four", 4)]
    path = sealed_store(made, tmp_path / "s", payloads)
    with opened(path, encryption_key=SECRET) as store:
        found = reading(store)
        assert found.sequences == [1, 4]
        assert [(f.code, f.file, f.address) for f in found.faults] == [
            ("undecryptable", "foo/msgs.1.dat", "2"),
            ("undecryptable", "foo/msgs.1.dat", "3"),
        ]
        assert [f.code for f in store.verify().faults] == ["undecryptable", "undecryptable"]
        # The same rows whatever columns are asked for.
        rows = [
            row for b in store.scan("foo", columns=["reply", "sequence"], on_fault=lambda f: None) for row in b.rows()
        ]
        assert rows == [("", 1), ("", 4)]


@pytest.mark.parametrize("max_rows", [1, 2, 100])
def test_data_too_short_for_a_ciphertext_says_nothing_of_the_key(
    made: Any, tmp_path: Path, opened: Any, max_rows: int
) -> None:
    payloads = [b"\x01", b"plain", b"\x02bin", seal(1, b"sealed", 4), b"\x01"]
    with opened(sealed_store(made, tmp_path / "s", payloads), encryption_key=SECRET) as store:
        faults: list[Fault] = []
        batches = store.scan("foo", columns=["payload"], max_rows=max_rows, on_fault=faults.append)
        assert [row[0] for batch in batches for row in batch.rows()] == [b"plain", b"sealed"]
        assert [f.address for f in faults] == ["1", "3", "5"]


def test_without_a_key_the_data_is_given_as_it_is(golden: Golden, truth: Any, opened: Any) -> None:
    said = truth("encrypted_AES.truth")["channels"]["enc.ch"]["messages"]
    with opened(golden("encrypted_AES")) as store:
        found = [(r.fields["sequence"], r.fields["length"], zlib_crc(r.payload)) for r in store.read("enc.ch")]
        assert found == [(m["seq"], m["len"], m["data_crc32"]) for m in said]
        (note,) = store.verify().faults
        assert (note.code, note.severity.value) == ("encrypted", "note")


def test_reading_encrypted_data_without_a_key_is_noted(golden: Golden, made: Any, tmp_path: Path, opened: Any) -> None:
    def told(path: Path, columns: list[str], **options: Any) -> list[tuple[str, str, str | None, str]]:
        faults: list[Fault] = []
        with opened(path, **options) as store:
            stream = store.streams()[0].name
            assert sum(
                batch.row_count for batch in store.scan(stream, columns=columns, on_fault=faults.append, max_rows=2)
            )
        return [(fault.code, fault.severity.value, fault.stream, fault.found) for fault in faults]

    note = ("encrypted", "note", "enc.ch", "2 of 2 payloads that look encrypted")
    assert told(golden("encrypted_AES"), ["sequence", "payload"]) == [note]
    assert told(golden("encrypted_AES"), ["sequence", "length"]) == []
    assert told(golden("encrypted_AES"), ["sequence", "payload"], encryption_key="mykey") == []
    mixed = sealed_store(made, tmp_path / "s", [seal(1, b"sealed", 1), b"plain", seal(1, b"sealed", 3)])
    assert told(mixed, ["payload"]) == []


def test_a_wrong_key_is_refused_in_one_line_without_the_key(golden: Golden, opened: Any) -> None:
    with opened(golden("encrypted_AES"), encryption_key=SECRET) as store:
        with pytest.raises(KeyRefused) as caught:
            list(store.read("enc.ch"))
        text = "".join(traceback.format_exception(caught.value))
        assert SECRET not in text
        assert "\n" not in str(caught.value)
        assert [f.code for f in store.verify().faults] == ["wrong-key"]


def test_keys_come_from_an_option_a_file_or_a_variable(
    golden: Golden, tmp_path: Path, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"mykey\n")
    monkeypatch.setenv("MY_OWN_VARIABLE", "mykey")
    for options in (
        {"encryption_key": b"mykey"},
        {"encryption_key_file": str(file)},
        {"encryption_key_env": "MY_OWN_VARIABLE"},
    ):
        with opened(golden("encrypted_CHACHA"), **options) as store:
            assert [r.payload for r in store.read("enc.chacha")] == PLAIN_CHACHA
    monkeypatch.setenv("NATS_STREAMING_ENCRYPTION_KEY", "mykey")
    with opened(golden("encrypted_CHACHA")) as store:
        assert [r.payload for r in store.read("enc.chacha")] == PLAIN_CHACHA


@pytest.mark.parametrize(
    "options", [{"encryption_key": ""}, {"encryption_key_file": "/no/such/file"}, {"encryption_key_env": "NO_SUCH_KEY"}]
)
def test_a_missing_key_is_refused_in_one_line(options: dict[str, Any], golden: Golden, opened: Any) -> None:
    with pytest.raises(KeyRefused) as caught:
        opened(golden("encrypted_AES"), **options)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_an_empty_key_file_is_refused(tmp_path: Path, golden: Golden, opened: Any) -> None:
    (tmp_path / "key").write_bytes(b"\n")
    with pytest.raises(KeyRefused):
        opened(golden("encrypted_AES"), encryption_key_file=str(tmp_path / "key"))


def test_the_key_shows_in_no_representation(golden: Golden, opened: Any) -> None:
    digest = hashlib.sha256(SECRET.encode()).digest()
    options = NatsStreamingOptions(encryption_key=SECRET)
    key = load_master_key(options)
    assert key is not None
    with opened(golden("encrypted_AES"), encryption_key=SECRET) as store:
        shown = [
            repr(options),
            str(options),
            repr(key),
            repr(key.for_channel(b"foo")),
            repr(store),
            repr(store._reading),
        ]
        shown += [repr(store.info()), repr(store.splits("enc.ch")), repr(store.verify())]
        pickled = pickle.dumps(store.splits("enc.ch"))
    for text in shown:
        assert SECRET not in text
        assert digest.hex() not in text
        assert repr(digest) not in text
    assert SECRET.encode() not in pickled
    assert digest not in pickled


def test_a_key_object_is_not_pickled() -> None:
    with pytest.raises(TypeError):
        pickle.dumps(MasterKey(b"secret"))


def test_the_cryptography_package_is_only_needed_with_a_key(
    golden: Golden, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    from everlog.errors import MissingDependency

    for name in [n for n in sys.modules if n.startswith("cryptography")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert len(list(opened(golden("encrypted_AES")).read("enc.ch"))) == 6
    with pytest.raises(MissingDependency, match="everlog\\[crypto\\]"):
        list(opened(golden("encrypted_AES"), encryption_key="mykey").read("enc.ch"))
