"""Aeron's property names: what the real driver knows, and what it makes of them, against our configuration."""

from __future__ import annotations

import re
import struct
import subprocess
import zipfile
from dataclasses import fields
from pathlib import Path

import pytest
from tools import aeron_java

from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.aeron.transport.driver.settings.properties import OTHER_PROGRAMS, REFUSED, WITHOUT_EFFECT, load
from tests.interop.archive.java_archive import FLAGS
from tests.interop.transport.java_transport import PROGRAM

CLASSES = re.compile(r"io/aeron/(driver/.*|CommonContext(\$.*)?)\.class")
CONSTANT = re.compile(rb"\x01(..)(aeron\.[A-Za-z_.]+)", re.DOTALL)
"""A text in a class file: its length is before it."""
NOT_PROPERTIES = re.compile(r"\.(class|java|dat|supplier\.)$")
JAVA_NAMES = {"publication_term_buffer_length": "publicationTermBufferLength"}
GIVEN = {
    "aeron.term.buffer.length": "128k",
    "aeron.ipc.term.buffer.length": "1M",
    "aeron.mtu.length": "8K",
    "aeron.rcv.initial.window.length": "64k",
    "aeron.socket.so_sndbuf": "100000",
    "aeron.timer.interval": "500ms",
    "aeron.client.liveness.timeout": "3s",
    "aeron.publication.unblock.timeout": "4000000us",
    "aeron.image.liveness.timeout": "7000000000",
    "aeron.nak.unicast.delay": "20us",
    "aeron.publication.reserved.session.id.low": "-10",
    "aeron.publication.reserved.session.id.high": "20",
    "aeron.spies.simulate.connection": "true",
    "aeron.rejoin.stream": "false",
    "aeron.untethered.resting.timeout": "2s",
    "aeron.counters.buffer.length": "2m",
    "aeron.flow.control.group.tag": "-9",
    "aeron.receiver.group.tag": "12",
    "aeron.driver.timeout": "4000",
    "aeron.max.resend": "20",
}


def names_in(jar: Path) -> set[str]:
    """Of properties in the constants of the driver's classes."""
    found: set[str] = set()
    with zipfile.ZipFile(jar) as opened:
        for name in opened.namelist():
            if CLASSES.fullmatch(name):
                for length, text in CONSTANT.findall(opened.read(name)):
                    found.add(text[: struct.unpack(">H", length)[0]].decode())
    return {name for name in found if not NOT_PROPERTIES.search(name)}


def java_name(name: str) -> str:
    return re.sub("_(.)", lambda match: match[1].upper(), name)


def test_every_property_of_the_real_driver_is_honoured_or_answered(aeron_jar: Path) -> None:
    ours = {name for setting in fields(Configuration) for name in setting.metadata["names"]}
    theirs = {name for name in names_in(aeron_jar) if not name.startswith(OTHER_PROGRAMS)}
    assert len(theirs & ours) > 75
    assert theirs - ours - set(REFUSED) - set(WITHOUT_EFFECT) == set()


def test_values_are_what_the_real_driver_makes_of_them(aeron_jar: Path, driver_folder: Path) -> None:
    own = {"aeron.dir": str(driver_folder), "aeron.print.configuration": "true", "aeron.dir.delete.on.shutdown": "true"}
    flags = FLAGS + tuple(f"-D{name}={value}" for name, value in (GIVEN | own).items())
    command = aeron_java.command(aeron_jar, "TransportPeer", "driver", source=PROGRAM, flags=flags)
    done = subprocess.run(command, input="close\n", capture_output=True, text=True, check=True, timeout=60)
    printed = dict(re.findall(r"^    (\w+)=(.*)$", done.stdout, re.MULTILINE))
    ours = load(given=[f"{name}={value}" for name, value in GIVEN.items()]).configuration
    compared = 0
    for setting in fields(Configuration):
        if setting.metadata["names"][0] in GIVEN and java_name(setting.name) in printed:
            value = getattr(ours, setting.name)
            text = str(value).lower() if isinstance(value, bool) else str(value)
            assert (setting.name, printed[java_name(setting.name)]) == (setting.name, text)
            compared += 1
    assert compared >= 18


@pytest.mark.parametrize(
    "given",
    [
        "aeron.mtu.length=1409",
        "aeron.term.buffer.length=100000",
        "aeron.client.liveness.timeout=20s",
        "aeron.untethered.resting.timeout=1s",
        "aeron.file.page.size=5000",
        "aeron.nak.unicast.delay=10",
        "aeron.mtu.length=1x",
    ],
)
def test_what_the_real_driver_refuses_is_refused(aeron_jar: Path, driver_folder: Path, given: str) -> None:
    flags = (*FLAGS, f"-Daeron.dir={driver_folder}", f"-D{given}")
    command = aeron_java.command(aeron_jar, "TransportPeer", "driver", source=PROGRAM, flags=flags)
    done = subprocess.run(command, input="close\n", capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.startswith("error ")
    with pytest.raises(Exception, match=given.split("=")[0].replace(".", r"\.") + "|aeron.publication.unblock.timeout"):
        load(given=[given])
