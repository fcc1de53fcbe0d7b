"""What the verbs of ``everlog spark`` share: without Spark."""

from __future__ import annotations

import json

import pytest

from everlog.cli.spark.invocation import chosen_options, scan_options
from everlog.errors import UsageError


def test_streams_that_are_named_one_by_one_come_together() -> None:
    assert chosen_options(("stream=a", "STREAM=b,c", "onFault=skip")) == {"stream": "a,b,c", "onFault": "skip"}
    assert json.loads(scan_options(("x", "y"), ("stream=a", "Stream=b"))["paths"]) == ["x", "y"]


def test_an_option_with_two_values_is_refused_and_one_that_says_the_same_twice_is_not() -> None:
    assert chosen_options(("checksum=crc32", "Checksum=crc32")) == {"checksum": "crc32"}
    with pytest.raises(UsageError, match="ONFAULT is given twice"):
        chosen_options(("onFault=skip", "ONFAULT=fail"))


@pytest.mark.parametrize("text", ["path=/x", "Paths=[]", "nothing", "=x"])
def test_paths_and_what_is_no_option_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--option"):
        chosen_options((text,))
