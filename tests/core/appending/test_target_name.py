"""Names of targets in notes."""

from __future__ import annotations

from everlog.core.appending.target_name import TargetName


def test_what_is_in_a_store_is_told_from_a_store_with_a_longer_name() -> None:
    name = TargetName("/data/a", "/data/a")
    assert all(name.is_in_store(f"/data/a{which}") for which in ("", "?recording=0", "?streamId=7", "?channel=x"))
    assert not any(name.is_in_store(text) for text in ("/data/ab", "/data/a/b", "/data/a?b", "/data/a?b?recording=0"))
