"""Tests of one file, and all that use Spark's session, run in one process."""

from __future__ import annotations

import os

import pytest


def test_the_runner_knows_the_groups(request: pytest.FixtureRequest) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ and request.config.getoption("loadgroup"):
        assert request.node.nodeid.endswith("@project/test_groups.py")
    groups = [mark.args[0] for mark in request.node.iter_markers("xdist_group")]
    assert groups == ["project/test_groups.py"]
