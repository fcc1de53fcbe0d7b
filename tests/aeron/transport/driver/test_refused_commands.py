"""Commands that the driver refuses with the texts of Java's driver, whose answers and error log entries are recorded
(tests/interop/transport/test_refused_commands.py)."""

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
    """Resolves the loopback interface only."""

    def resolve(self, host: str, parameter: str, is_re_resolution: bool) -> str | None:
        """Resolve a name, or return an address unchanged."""
        if host == "localhost":
            return "127.0.0.1"
        return super().resolve(host, parameter, is_re_resolution) if host[-1:].isdigit() else None


class OurDoor(ConductedDriver):
    """Access to an everlog driver on a simulated machine, with one thread for all agents."""

    def answer(self, command: commands.Command) -> commands.Event:
        """Send a command. Returns the answer."""
        self.write(command)
        for _ in range(8):
            self.parts.conductor.do_work(self.now_ns, self.now_ms)
            for event in self.events():
                if getattr(event, "correlation_id", None) == command.correlation_id:
                    return event
        raise AssertionError(command)

    def first_lines(self) -> dict[str, int]:
        """The first lines of the errors in the driver's log, and their counts."""
        found: dict[str, int] = {}
        for entry in read_errors(self.cnc.error_log.view()):
            line = entry.text.partition("\n")[0].rstrip()
            found[line] = found.get(line, 0) + entry.observation_count
        return found

    def pass_time(self) -> None:
        """Let a millisecond pass for all agents."""
        self.advance(MS)


@pytest.mark.parametrize("cases", PARTS, ids=range(len(PARTS)))
def test_a_command_is_refused_and_logged_in_the_words_of_java(cases: list[list[Step]]) -> None:
    driver = OurDoor(resolver=NoNames(), error_log_length=1 << 20, publication_linger_timeout_ns=0)
    driver.alive = (CLIENT,)
    assert Run(driver).all(cases) == {key(case): JAVA[key(case)] for case in cases}
