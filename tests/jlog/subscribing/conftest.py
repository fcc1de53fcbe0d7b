"""Fixtures of the tests in this folder."""

from __future__ import annotations

import pytest


@pytest.fixture
def ten(by_hand):
    """Ten messages, m0 to m9, in one segment; subscriber x has had none."""
    by_hand.segments([b"m%d" % i for i in range(10)])
    by_hand.put_checkpoint(b"x", 0, 0)
    return by_hand
