"""Commands that our driver refuses in the words of Java's driver: what that one answered and wrote into its error log
is recorded (tests/interop/transport/test_refused_commands.py)."""

from __future__ import annotations

import gzip
import json

import pytest

from everlog.aeron.error_log import read_errors
from everlog.aeron.transport.media.name_resolver import DefaultNameResolver
from everlog.aeron.transport.protocol import commands
from tests.aeron.transport.driver.conducted_driver import MS, ConductedDriver
from tests.aeron.transport.driver.refused_commands import CASES, CLIENT, GOLDEN, Kept, Run, Step, key

CASES_OF_A_DRIVER = 40
with gzip.open(GOLDEN, "rt") as _file:
    JAVA: Kept = json.load(_file)
REFUSED = [case for case in CASES if JAVA[key(case)][0] or JAVA[key(case)][2]]
PARTS = [REFUSED[at : at + CASES_OF_A_DRIVER] for at in range(0, len(REFUSED), CASES_OF_A_DRIVER)]


class NoNames(DefaultNameResolver):
    """Knows the loopback interface alone."""

    def resolve(self, host: str, parameter: str, is_re_resolution: bool) -> str | None:
        """Of a name, or of what is an address already."""
        if host == "localhost":
            return "127.0.0.1"
        return super().resolve(host, parameter, is_re_resolution) if host[-1:].isdigit() else None


class OurDoor(ConductedDriver):
    """Of our driver, on a simulated machine: one thread does all."""

    def answer(self, command: commands.Command) -> commands.Event:
        """What it says to a command."""
        self.write(command)
        for _ in range(8):
            self.parts.conductor.do_work(self.now_ns, self.now_ms)
            for event in self.events():
                if getattr(event, "correlation_id", None) == command.correlation_id:
                    return event
        raise AssertionError(command)

    def first_lines(self) -> dict[str, int]:
        """Of the errors in its log, and how often they were seen."""
        found: dict[str, int] = {}
        for entry in read_errors(self.cnc.error_log.view()):
            line = entry.text.partition("\n")[0].rstrip()
            found[line] = found.get(line, 0) + entry.observation_count
        return found

    def pass_time(self) -> None:
        """A millisecond, for all agents."""
        self.advance(MS)


@pytest.mark.parametrize("cases", PARTS, ids=range(len(PARTS)))
def test_a_command_is_refused_and_logged_in_the_words_of_java(cases: list[list[Step]]) -> None:
    driver = OurDoor(resolver=NoNames(), error_log_length=1 << 20, publication_linger_timeout_ns=0)
    driver.alive = (CLIENT,)
    assert Run(driver).all(cases) == {key(case): JAVA[key(case)] for case in cases}
