"""A driver's folder cut and flipped: clear errors or faults, no crash, no hang, no message that nobody published."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

import everlog
from everlog.aeron.transport.folder.log_scan import LogScan
from everlog.aeron.transport.format import cnc_file
from everlog.aeron.transport.format.cnc_file import CncFile, driver_errors
from everlog.aeron.transport.format.loss_report import load_losses
from everlog.core.report import Fault
from everlog.core.store import Store
from everlog.errors import CorruptData, EverlogError, LimitExceeded, StoreUnavailable, UnsupportedVersion
from everlog.stores import open_store
from everlog.testing.series import Series
from everlog.testing.storage.memory import MemoryStorage
from tests.aeron.transport.folder.driver_folder import cnc, folder, image, losses, publication

MESSAGES = {
    "publications/9": [b"a" * 20, b"0" * 30, b"1" * 30, b"2" * 30],
    "images/11": [b"first", b"second"],
}


def opened(**files: bytes) -> Store:
    """The folder made by hand; ``files`` by the beginning of a name replace others."""
    names = {"cnc": "cnc.dat", "loss": "loss-report.dat", "pub": "publications/9.logbuffer"}
    names["image"] = "images/11.logbuffer"
    return open_store(MemoryStorage(folder() | {names[key]: data for key, data in files.items()}))


def messages(store: Store) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for info in store.streams():
        faults: list[Fault] = []
        found[info.name] = [record.payload for record in store.read(info.name, on_fault=faults.append)]
    return found


def exercise(store: Store) -> dict[str, list[bytes]]:
    """Everything that looking can do: nothing raises."""
    store.info()
    report = store.verify()
    assert all(fault.file and fault.found and fault.expected for fault in report.faults)
    return messages(store)


def damaged(data: bytes, count: int, seed: int) -> Iterator[bytes]:
    rng = random.Random(seed)
    for _ in range(count):
        at = rng.randrange(len(data))
        yield data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def test_the_folder_made_by_hand_is_right() -> None:
    with opened() as store:
        assert exercise(store) == MESSAGES
        codes = {fault.code for fault in store.verify().faults}
        assert codes == {"driver-gone", "frame-gap"}
        state = store.info()
    assert [counter["label"] for counter in state["counters"]][-1] == "a user's"
    assert [loss["observation_count"] for loss in state["losses"]] == [3, 1]
    assert state["errors"][0]["observation_count"] == 2


def test_cnc_cut_at_every_byte_is_an_error_or_gives_what_is_left(series: Series) -> None:
    whole = cnc()
    with CncFile.open(MemoryStorage({"cnc.dat": whole})) as file:
        labels = [counter.label for counter in file.counters()]
        values_start, values_end, used = file.counters_values.start, file.counters_values.end, file.error_log.end
    for end in series.points(range(len(whole))):
        storage = MemoryStorage({"cnc.dat": whole[:end]})
        if end < 128:
            with pytest.raises(CorruptData, match=rf"cnc\.dat at offset 0: {end} bytes; expected"):
                CncFile.open(storage)
            continue
        with CncFile.open(storage) as file:
            counters = file.counters()
            assert file.problem == (None if end >= used else f"{end} bytes of {used}")
            file.to_dict()
        assert [counter.label for counter in counters] == labels[: max(0, end - values_start) // 128]
        if end >= values_end:
            assert len(counters) == len(labels)
            driver_errors(storage)
    for end in series.points([*range(130), *range(130, len(whole), 61)]):
        with opened(cnc=whole[:end]) as store:
            assert exercise(store) == MESSAGES
            assert store.verify().ok == (end >= used)


def test_cnc_with_flipped_bits_costs_no_message(series: Series) -> None:
    for data in damaged(cnc(), series.rounds(1500), 11):
        with opened(cnc=data) as store:
            assert exercise(store) == MESSAGES


def test_every_bit_of_the_metadata_flipped_is_an_error_or_a_fault_where_it_matters() -> None:
    whole = cnc()
    refused = clear = 0
    for bit in range(52 * 8):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        storage = MemoryStorage({"cnc.dat": bytes(data)})
        try:
            with CncFile.open(storage) as file:
                file.counters()
                file.errors()
                file.to_dict()
        except EverlogError as error:
            clear += error.where == "cnc.dat" and error.offset is not None and bool(error.expected)
            refused += 1
        if 32 <= bit < 20 * 8:
            with opened(cnc=bytes(data)) as store:
                assert not store.verify().ok, f"bit {bit}"
    assert refused == clear > 24


@pytest.mark.parametrize(
    ("version", "kind", "words"),
    [
        (0, StoreUnavailable, "a driver is starting"),
        (16, UnsupportedVersion, r"version 0\.0\.16"),
        (0x000100, UnsupportedVersion, r"version 0\.1\.0"),
        (0x000300, UnsupportedVersion, r"version 0\.3\.0"),
        (0x010200, UnsupportedVersion, r"version 1\.2\.0"),
        (-1, UnsupportedVersion, "version"),
        (0x7FFFFFFF, UnsupportedVersion, "version"),
    ],
)
def test_other_versions_of_cnc_are_named(version: int, kind: type[EverlogError], words: str) -> None:
    with pytest.raises(kind, match=words):
        CncFile.open(MemoryStorage({"cnc.dat": cnc(cnc_version=version)}))
    with opened(cnc=cnc(cnc_version=version)) as store:
        assert exercise(store) == MESSAGES
        expected = "cnc-not-ready" if version == 0 else "cnc-version"
        assert expected in {fault.code for fault in store.verify().faults}


def test_a_patch_version_is_read() -> None:
    with CncFile.open(MemoryStorage({"cnc.dat": cnc(cnc_version=513)})) as file:
        assert file.version == "0.2.1"
        assert len(file.counters()) == 7


def test_lengths_that_lead_far_beyond_the_file_are_refused_or_read_as_far_as_it_goes() -> None:
    for length in (-1, 1 << 30, (1 << 31) - 1, -(1 << 31)):
        for name in ("to_driver_buffer_length", "counters_metadata_buffer_length", "error_log_buffer_length"):
            with opened(cnc=cnc(**{name: length})) as store:
                begin = time.monotonic()
                assert exercise(store) == MESSAGES
                assert time.monotonic() - begin < 5
                assert not store.verify().ok


def test_a_log_buffer_cut_at_any_byte_is_a_fault_and_costs_only_itself(series: Series) -> None:
    whole = publication()
    # Every byte of the frames, which are around the first term's end, and of the metadata; some of the room between.
    metadata = len(whole) - 4096
    cuts = [*range(0, metadata, 499), *range(65536 - 200, 65536 + 300), *range(metadata - 40, metadata + 700)]
    cuts += range(metadata + 700, len(whole), 13)
    for end in series.points(cuts):
        with opened(pub=whole[:end]) as store:
            found = exercise(store)
            assert found["images/11"] == MESSAGES["images/11"]
            assert "publications/9" not in found or end == len(whole)
            assert not store.verify().ok


def test_a_log_buffer_with_flipped_bits_gives_no_message_from_elsewhere(series: Series) -> None:
    # Payloads are under no checksum: what is given has the place and, but for one bit, the bytes of what was written.
    # The length of the image's first frame is left alone: a hole is behind it, so nothing tells where it ends.
    for make, name, stream in ((publication, "pub", "publications/9"), (image, "image", "images/11")):
        whole = make()
        used = [i for i, byte in enumerate(whole) if byte and not (name == "image" and i < 4)]
        rng = random.Random(12)
        for _ in range(series.rounds(1500)):
            at = rng.choice(used) if rng.random() < 0.9 else rng.randrange(4, len(whole))
            data = bytearray(whole)
            data[at] ^= 1 << rng.randrange(8)
            with opened(**{name: bytes(data)}) as store:
                for payload in exercise(store).get(stream, []):
                    assert any(differ_by_a_bit(payload, written) for written in MESSAGES[stream]), (at, payload)


def differ_by_a_bit(found: bytes, written: bytes) -> bool:
    """Equal, or but for one bit; or of another length, where neither what is behind nor a checksum tells: within its
    padding to 32 bytes, or with zeros, as they are behind a last frame."""
    if found.rstrip(b"\0") == written or (len(found) < len(written) and written.startswith(found)):
        return True
    return len(found) == len(written) and sum((a ^ b).bit_count() for a, b in zip(found, written, strict=True)) == 1


def test_the_loss_report_cut_or_flipped_anywhere_is_read_as_far_as_it_goes() -> None:
    whole = losses()
    for data in (*(whole[:end] for end in range(len(whole))), *damaged(whole, 2000, 13)):
        found = load_losses(MemoryStorage({"loss-report.dat": data}))
        assert found is not None
        assert len(found[0]) <= 5
    with opened(loss=whole[:90]) as store:
        assert exercise(store) == MESSAGES


def test_random_bytes_give_nothing_and_end() -> None:
    rng = random.Random(14)
    for size in (0, 1, 127, 128, 4096, 5000, 200_704):
        noise = rng.randbytes(size)
        with opened(cnc=noise, loss=noise, pub=noise, image=noise) as store:
            assert not any(exercise(store).values())
            assert not store.verify().ok


def test_folders_in_the_place_of_files_are_faults_not_crashes() -> None:
    names = ("cnc.dat/x", "loss-report.dat/x", "publications/9.logbuffer/x", "images")
    with open_store(MemoryStorage(dict.fromkeys(names, b"x")), family="aeron-driver") as store:
        assert exercise(store) == {}
        assert {"unreadable"} <= {fault.code for fault in store.verify().faults}


def test_frames_that_are_cleaned_while_they_are_read_are_not_given_out(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage(folder())
    name = "publications/9.logbuffer"
    step = LogScan._step

    def clean(scan: LogScan) -> bool:
        full = step(scan)
        data = scan.file._data  # type: ignore[attr-defined]
        scan.file._data = bytes(65536) + data[65536:]  # type: ignore[attr-defined]
        return full

    monkeypatch.setattr(LogScan, "_step", clean)
    with open_store(storage) as store:
        faults: list[Fault] = []
        found = [record.payload for record in store.read("publications/9", on_fault=faults.append)]
    assert found == []
    assert [(fault.code, fault.file, fault.severity.value) for fault in faults] == [
        ("log-buffer-changed", name, "note")
    ]


def test_counters_that_change_while_they_are_read_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    before = cnc()
    # Counter 6 becomes another one, with another value.
    start = before.index(b"a user's") - 132
    after = before[: start + 4] + (1778).to_bytes(4, "little") + before[start + 8 :]
    after = after.replace(b"a user's", b"the next")
    after = after.replace((-1).to_bytes(8, "little", signed=True), (5).to_bytes(8, "little"))
    storage = MemoryStorage({"cnc.dat": before})
    with CncFile.open(storage) as file:
        read = file.read
        calls = []

        def changing(*arguments: object, **more: object) -> bytes:
            calls.append(arguments)
            if len(calls) == 2:  # metadata was read, values were not
                file._file._data = after  # type: ignore[attr-defined]
            return read(*arguments, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(file, "read", changing)
        last = file.counters()[-1]
    assert (last.type_id, last.label, last.value) == (1778, "the next", 5)


def test_an_unknown_stream_is_told() -> None:
    with opened() as store:
        for name in (
            "publications/10",
            "images/9",
            "cnc.dat",
            "publications/../cnc",
            "publications/09",
            "publications/",
        ):
            with pytest.raises(everlog.UnknownStream):
                list(store.read(name))


def test_counters_and_errors_come_in_any_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage({"cnc.dat": cnc()})
    with CncFile.open(storage) as file:
        whole = file.counters(), file.errors()
    for chunk in (512, 1024, 1536):
        monkeypatch.setattr(cnc_file, "CHUNK_BYTES", chunk)
        with CncFile.open(storage) as file:
            assert (file.counters(), file.errors()) == whole


def test_more_counters_than_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cnc_file, "CHUNK_BYTES", 512)
    monkeypatch.setattr(cnc_file, "MAX_USED_BYTES", 1024)
    storage = MemoryStorage({"cnc.dat": cnc()})
    with CncFile.open(storage) as file, pytest.raises(LimitExceeded, match="at most 1024"):
        file.counters()
    with opened() as store:
        assert exercise(store) == MESSAGES
        assert "cnc-field" in {fault.code for fault in store.verify().faults}
