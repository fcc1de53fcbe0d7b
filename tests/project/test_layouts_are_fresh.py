"""The tables in docs/formats and the offsets of compiled code are generated from the layouts, and up to date."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from dataclasses import dataclass
from enum import IntEnum
from types import ModuleType
from typing import Annotated, ClassVar

import pytest

import tests
from everlog.aeron.messages import Int64, Message, Number, Since, Text, UInt8
from everlog.layout import Layout, fixed_bytes, gap, u16, u32

ROOT = tests.ROOT
TOOL = ROOT / "tools" / "generate_layouts.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_layouts", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class HTTPFrameV2(Layout, size=12, title="A frame", source="made up", var_data=("channel",)):
    """For this test."""

    magic: int = u16(0, "either | or")
    reserved = gap(2, 2)
    length: int = u32(4)
    name: bytes = fixed_bytes(8, 4)


class Colour(IntEnum):
    """For this test."""

    RED = 0
    BLUE = 7


@dataclass(frozen=True, slots=True)
class Wheel(Message):
    """An entry of a group."""

    size: Annotated[UInt8, "in inches"]


@dataclass(frozen=True, slots=True)
class Car(Message):
    """A car, not a :class:`~everlog.layout.Layout`."""

    template_id: ClassVar[int] = 5
    number: Int64
    colour: Annotated[Colour, Number("i", kind=Colour), "of the body", Since(3)] = Colour.RED
    wheels: tuple[Wheel, ...] = ()
    owner: Annotated[Text, Since(4)] = ""


def test_generated_files_are_up_to_date() -> None:
    done = subprocess.run([sys.executable, str(TOOL), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"run `make formats`:\n{done.stdout}{done.stderr}"


def test_constants_are_sizes_and_offsets(tool: ModuleType) -> None:
    lines = tool.constants("x", [HTTPFrameV2]).splitlines()
    assert lines[2:] == [
        "cdef enum:",
        "    HTTP_FRAME_V2_SIZE = 12",
        "    HTTP_FRAME_V2_MAGIC = 0",
        "    HTTP_FRAME_V2_LENGTH = 4",
        "    HTTP_FRAME_V2_NAME = 8",
    ]


def test_two_constants_of_one_name_are_refused(tool: ModuleType) -> None:
    with pytest.raises(ValueError, match="HTTP_FRAME_V2_SIZE is defined twice"):
        tool.constants("x", [HTTPFrameV2, HTTPFrameV2])


def test_a_table_shows_offset_size_type_name_and_meaning(tool: ModuleType) -> None:
    text = tool.section(HTTPFrameV2)
    assert "| 0 | 2 | u16 | `magic` | either \\| or |" in text
    assert "| 2 | 2 | -[2] | (gap) |  |" in text
    assert "| 8 | 4 | bytes[4] | `name` |  |" in text
    assert "12 bytes, little-endian. Followed by `channel`. Source: made up." in text


def test_a_messages_tables_show_versions_names_and_groups(tool: ModuleType) -> None:
    text = tool.message_section(Car)
    assert text.startswith("### Car: template 5\n\nA car, not a `Layout`.\n")
    assert "A block of 12 bytes. Followed by `wheels`, `owner` (since 4)." in text
    assert "| 8 | 4 | i32 | `colour` | 3 | of the body; 0 RED, 7 BLUE |" in text
    assert "Each entry of `wheels`: 1 bytes." in text
    assert "| 0 | 1 | u8 | `size` |  | in inches |" in text
