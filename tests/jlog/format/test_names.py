"""Names of a journal's files."""

from __future__ import annotations

import pytest

from everlog.jlog.format import names


def test_names_are_made_and_read_back():
    assert names.segment_name(0x1F) == "0000001f"
    assert names.index_name(0xFFFF_FFFF) == "ffffffff.idx"
    assert names.parse_segment_name("0000001f") == 31
    assert names.parse_index_name("0000001f.idx") == 31
    for wrong in ("0000001F", "1f", "0000001f0", "0000001g", "0000001f\n", "../00001f"):
        assert names.parse_segment_name(wrong) is None
        assert names.parse_index_name(wrong + ".idx") is None
    for log in (-1, 1 << 32):
        with pytest.raises(ValueError, match="outside"):
            names.segment_name(log)
    assert names.checkpoint_name("alpha") == "cp.616c706861"
    assert names.parse_checkpoint_name("cp.7e7461696c") == "~tail"
    for wrong in ("cp.", "cp.6", "cp.616", "cp.6g", "cp.6A", "cp", "xcp.61", "cp.61\n"):
        assert names.parse_checkpoint_name(wrong) is None
    for name in ("../../etc", "a/b", "ümlaut", "\udcff\udcfe"):
        file = names.checkpoint_name(name)
        assert "/" not in file
        assert names.parse_checkpoint_name(file) == name
    assert names.printable("\udcff") == "\\xff"
