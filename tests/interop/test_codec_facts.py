"""What Aeron's own decoders say of their messages is what the golden files say, with which ours are compared."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tools import aeron_java

from tests import GOLDEN

PROGRAM = Path(__file__).parent / "archive" / "CodecFacts.java"
SECONDS = 60.0
FILES = {
    "io.aeron.archive.codecs": "archive-messages-1.51.0.txt",
    "io.aeron.cluster.codecs": "cluster-codecs-1.51.0.txt",
}


@pytest.mark.parametrize("package", FILES)
def test_aerons_decoders_say_what_is_recorded(package: str, aeron_jar: Path) -> None:
    command = aeron_java.command(aeron_jar, "CodecFacts", aeron_jar, package, source=PROGRAM)
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS)
    assert done.stdout == (GOLDEN / "aeron" / FILES[package]).read_text()
