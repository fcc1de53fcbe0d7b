"""Names of slices and channels."""

from __future__ import annotations

import os

from everlog.nats_streaming.format.names import channel_problem, channel_text, parse_slice_name


def test_names_of_slices() -> None:
    good = parse_slice_name("msgs.12.idx.bak")
    assert good is not None
    assert (good.number, good.kind, good.is_bak) == (12, "idx", True)
    for name in ("msgs..dat", "msgs.1x.dat", "msgs.1.dat.bak.bak", "amsgs.1.dat", "msgs.99999999999.dat", "msgs.٣.dat"):
        assert parse_slice_name(name) is None


def test_names_of_channels() -> None:
    assert channel_text(os.fsdecode(b"caf\xe9")) == "caf\\xe9"
    assert channel_problem("a.b.c") is None
    assert [bool(channel_problem(n)) for n in ("", ".a", "a.", "a..b", "a.*", "a.>", "a b")] == [True] * 7
