"""A live archive in a simulated system: its driver, another machine, three clients over IPC and a lossy network, and a
storage that crashes. Drivers pause and die, clients stop reading their answers. One seed is one run::

    SystemSimulation(seed=7).run()

A step of the system never runs the archive: its cycle, which may wait for the driver and so let the system go on, is
called by :meth:`SystemSimulation.step` alone.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator

from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.client.values import ReplayParams
from everlog.aeron.archive.protocol.codec import decode
from everlog.aeron.archive.recording.options import ArchiveOptions
from everlog.aeron.archive.service.conductor import ArchiveConductor
from everlog.aeron.archive.service.context import ServiceContext
from everlog.aeron.archive.service.counters import (
    ARCHIVE_ERRORS_TYPE_ID,
    CONTROL_SESSION_TYPE_ID,
    ArchiveCounters,
    CycleThresholds,
    archive_key,
)
from everlog.aeron.archive.service.upkeep.deletion import Deletion
from everlog.aeron.family_options import Checksum
from everlog.aeron.transport.client.aeron import Aeron
from everlog.aeron.transport.client.counter import Counter as DriverCounter
from everlog.errors import EverlogError
from everlog.testing.archive.answers import Answers
from everlog.testing.archive.choices import SEGMENT_LENGTH, bounded_params
from everlog.testing.archive.client import SystemClient
from everlog.testing.archive.crash import Crash, PowerCut
from everlog.testing.archive.driver_faults import CLIENT, NOTICE_NS, DriverFaults
from everlog.testing.archive.events_model import EventsModel
from everlog.testing.archive.published import Published
from everlog.testing.archive.quiet import quiet
from everlog.testing.archive.script import Script
from everlog.testing.archive.system_settings import (
    ANSWER_NS,
    ARCHIVE_ID,
    CALM_STEPS,
    DRIVER,
    END_NS,
    EVENTS_STREAM,
    LONGEST_PARTITION_NS,
    SETTLING_STEP_NS,
    STEP_NS,
    STEPS,
    archive_settings,
)
from everlog.testing.archive.watch import Watch
from everlog.testing.network.simulated import LinkConditions
from everlog.testing.network.system import TransportSystem
from everlog.testing.storage.crashing import CrashingStorage
from everlog.time_units import NS_PER_MS, NS_PER_S


class SystemSimulation:
    """One archive, two machines, three clients. ``run`` raises :class:`SimulationFailed` if an invariant does not
    hold."""

    def __init__(self, seed: int) -> None:
        self.archive_address, self.other_address = "10.0.0.1", "10.0.0.2"
        self.control = f"{self.archive_address}:8010"
        self.seed = seed
        self.random = random.Random(seed)
        self.script = Script(f"python -m everlog.testing.archive.soak --system-seed {seed}")
        self.counts: Counter[str] = Counter()
        self.published = Published()
        self.model = EventsModel(self.script)
        self.stream_ids: Iterator[int] = itertools.count(5000)
        self.all_answers: list[Answers] = []
        self.dead: list[Aeron] = []
        self.is_calm = self.is_settling = False
        level = 1 if self.random.random() < 0.7 else 0
        checksum: Checksum = "crc32c" if level and self.random.random() < 0.7 else "none"
        self._may_cut_power = checksum != "none"
        self.watch = Watch(self.script, self.published, is_synced=level > 0)
        self._settings = archive_settings(self.control, level, checksum)
        self._storage = CrashingStorage(root="/", edge_bytes=4096)
        self._crash: Crash | None = None
        self._ending: dict[int, int] = {}
        self._lost_by_ns: int | None = None
        self._losing: list[Answers] = []
        """The sessions that must have ended by then."""
        self._maintained: set[int] = set()
        self._is_open = self._is_driver_lost = False
        self._opened_ns = 0
        self._heal_at_ns: int | None = None
        self._calm_since_ns = 0
        self._limits: list[DriverCounter] = []
        self._system = TransportSystem(seed, self._weather(), step_ns=STEP_NS)
        self._host = self._system.driver(self.archive_address, **DRIVER)
        other = self._system.driver(self.other_address, **DRIVER)
        self._faults = DriverFaults(self._system.drivers, self.random, self.script)
        self._observer = self._host.client(**CLIENT)
        hosts = (self._host, self.random.choice((self._host, other)), other)
        self.clients = [
            SystemClient(self, str(number), host, is_local=host is self._host) for number, host in enumerate(hosts)
        ]

    @property
    def now_ns(self) -> int:
        """The system's time."""
        return self._system.now_ns

    def _weather(self) -> LinkConditions:
        roll = self.random.random
        delay_ns = self.random.choice((0, 100_000, 2 * NS_PER_MS))
        return LinkConditions(
            loss=roll() * 0.1, duplication=roll() * 0.1, reordering=roll() * 0.1, delay_ns=(0, delay_ns)
        )

    # The archive

    def _open(self) -> None:
        settings, level = self._settings, self._settings.file_sync_level
        options = ArchiveOptions(
            file_sync_level=level,
            catalog_file_sync_level=level,
            segment_length=SEGMENT_LENGTH,
            checksum=settings.record_checksum,
            catalog_capacity=4096,
            liveness_timeout_s=0,
        )
        self.aeron = self._host.client(**CLIENT)
        thresholds = CycleThresholds(NS_PER_S, NS_PER_S, NS_PER_S)
        self._counters = ArchiveCounters(self.aeron, ARCHIVE_ID, thresholds, lambda: self.now_ns)
        self.archive = Archive.create(self._storage, options, exist_ok=True)
        context = ServiceContext(
            aeron=self.aeron,
            archive=self.archive,
            archive_id=ARCHIVE_ID,
            settings=settings,
            on_error=self.watch.on_error,
            now_ms=lambda: self._system.now_ms,
        )
        self.conductor = ArchiveConductor(context, self._counters)
        self.watch.open(self.archive, self.conductor, self._storage)
        self._is_open, self._is_driver_lost = True, False
        self._opened_ns = self.now_ns
        self._note("the archive is open")

    def maintained(self) -> set[int]:
        """The recordings whose maintenance is under way."""
        found = {each.recording_id for each in self.conductor._running if isinstance(each, Deletion)}
        return found.union(*(each.maintained() for each in self.all_answers))

    def _end(self, storage: CrashingStorage) -> None:
        """The archive is no more; it is opened again when the driver has noticed."""
        self._maintained = self.maintained()
        self._losing = [each.answers for each in self.clients if each.answers is not None]
        self.all_answers.clear()
        self._ending.clear()
        self._read_events()  # what it has sent is there still
        self.model.reset()
        self._storage = storage
        self._crash = None
        self._is_open = False
        self._lost_by_ns = self.now_ns + END_NS

    def _die(self, left: CrashingStorage) -> None:
        self._note("the archive has crashed")
        self.watch.learn()
        self.archive.abandon()
        self._host.clients.remove(self.aeron)
        self.dead.append(self.aeron)
        self._end(left)

    def _lose_driver(self) -> None:
        self._note("the archive has lost its driver")
        self.counts["archives without a driver"] += 1
        self._storage.after_each = None
        self.watch.learn()
        self.watch.remember()
        self.conductor.close()
        self.archive.abandon()
        self._host.clients.remove(self.aeron)
        self.dead.append(self.aeron)
        self._end(self._storage)

    def _close(self) -> None:
        self._note("the archive is closed")
        self.watch.remember()
        self._end(self._storage)
        self.conductor.close()
        self.archive.close()
        self._counters.close()
        self._check_counters()
        self.aeron.close()
        self._host.clients.remove(self.aeron)

    def _check_counters(self) -> None:
        if not self.aeron.is_closed and self._host.is_running:
            # Those of sessions that were not open yet go with the client.
            own = range(ARCHIVE_ERRORS_TYPE_ID, CONTROL_SESSION_TYPE_ID)
            left = [each.label for each in self._observer.counters if each.type_id in own]
            self.script.require(not left, f"after a close there are counters: {left}")

    def _observe(self) -> None:
        """Observe again, when the driver has gone or has given up the observer."""
        if self._observer in self._host.clients:
            self._host.clients.remove(self._observer)
            self.dead.append(self._observer)
            self._limits.clear()
            self.model.reset()
        if self._host.is_running:
            self._observer = self._host.client(**CLIENT)
            self._events = self._observer.add_subscription("aeron:ipc?term-length=64k", EVENTS_STREAM)

    def _reopen(self) -> None:
        if self._observer.is_closed or not self._host.is_running:
            return
        key = archive_key(ARCHIVE_ID)
        if self._observer.counters.find_by_key(ARCHIVE_ERRORS_TYPE_ID, key) is None and self.random.random() < 0.1:
            self._open()
            self.watch.check_recovered(self._maintained)

    # Surroundings

    @property
    def is_listening(self) -> bool:
        """Whether all recording events arrive from now on."""
        return not self._observer.is_closed and self._events.is_connected

    def expect_end(self, session_id: int) -> None:
        """The client of a session is no more."""
        self._ending[session_id] = max(self.now_ns, self._faults.last_ns) + END_NS

    def bounded(self, params: ReplayParams) -> ReplayParams:
        """Return ``params`` with a random counter as the replay's limit."""
        if self._observer.is_closed or not self._host.is_running:
            return params
        if len(self._limits) < 3:
            try:
                self._limits.append(self._observer.add_counter(2000, "limit"))
            except EverlogError:  # the driver has ended
                return params
        return bounded_params(params, self.random.choice(self._limits).counter_id)

    def _trouble(self) -> None:
        generator, now_ns = self.random, self.now_ns
        if not self.is_calm and self._faults.step(now_ns):
            for each in self.all_answers:
                each.excuse_tokens()
        roll = generator.random()
        if roll < 0.0015 and self._heal_at_ns is None:
            self._system.network.partition([self._host.machine], [self._system.drivers[1].machine])
            self._heal_at_ns = now_ns + generator.randrange(LONGEST_PARTITION_NS)
            self._note("the machines are cut off from each other")
        elif roll < 0.003:
            self._system.network.weather = self._weather()
        elif roll < 0.006 and self._is_open and self._crash is None:
            seed = generator.getrandbits(32) if self._may_cut_power and generator.random() < 0.7 else None
            self._crash = Crash(self._storage, generator.randrange(1, 60), seed)
        elif roll < 0.0068 and self._is_open and self._crash is None:
            self._close()
        if self._heal_at_ns is not None and now_ns >= self._heal_at_ns:
            self._system.network.heal()
            self._heal_at_ns, self._calm_since_ns = None, now_ns
            self._note("the machines see each other again")
        for counter in self._limits:
            if generator.random() < 0.05 and not counter.is_closed:
                counter.value += 32 * generator.randrange(200)

    # Time

    def run(self) -> Counter[str]:
        """Run to the end; returns what has happened, counted."""
        with quiet(self.seed):
            try:
                return self._run()
            finally:
                self._storage.after_each = None
                if self._is_open:
                    self.archive.abandon()
                for client in (self._observer, *self.dead, *(each.aeron for each in self.clients)):
                    client.close()
                if self._is_open:
                    self.aeron.close()

    def _run(self) -> Counter[str]:
        self._events = self._observer.add_subscription("aeron:ipc?term-length=64k", EVENTS_STREAM)
        self._open()
        for number in range(STEPS + CALM_STEPS):
            self.is_calm = number >= STEPS
            self.step()
        self._settle()
        counts = sum((each.counts for each in self.clients), self.counts) + self.watch.counts + self._faults.counts
        counts["comparisons"] = self.model.comparisons
        return counts

    def _settle(self) -> None:
        """Let everything that was asked for be answered, and all end that has to."""
        self._faults.end(self.now_ns)
        self._system.network.heal()
        self._system.network.weather = LinkConditions()
        self._heal_at_ns, self._calm_since_ns = None, self.now_ns
        self.is_settling = True
        end_ns = self.now_ns + ANSWER_NS
        while self.now_ns < end_ns:
            self.step()
        for client in self.clients:
            if client.answers is not None and client.has_session:
                client.answers.overdue(self.now_ns - NS_PER_S)

    def step(self) -> None:
        """One step of the system, its clients and the archive, and all checks."""
        self._system.step(SETTLING_STEP_NS if self.is_settling else None)
        self.script.now_ns = self.now_ns
        if self._observer.is_closed:
            self._observe()
        for client in self.random.sample(self.clients, len(self.clients)):
            client.act()
        if not self.is_settling:
            self._trouble()
        if self._is_open:
            self._turn()
        else:
            self._reopen()
        self._check_losses()

    def _turn(self) -> None:
        if self._crash is not None:
            self.watch.remember()
        self._check_driver()
        try:
            self.conductor.do_work(self.now_ns)
        except PowerCut:
            assert self._crash is not None
            assert self._crash.left is not None
            self._die(self._crash.left)
            return
        except EverlogError:
            if not self.conductor.is_cut_off:
                raise
            self._lose_driver()
            return
        if self.aeron.is_closed:  # in this cycle: it ends with the next one
            self.script.require(not self._is_driver_lost, "the archive goes on without a driver")
            self._is_driver_lost = True
            return
        self.watch.check()
        self._check_events()
        self._check_sessions()

    def _check_driver(self) -> None:
        died_ns = self._faults.died_ns.get(self._host, 0)
        if self._opened_ns < died_ns and self.now_ns > died_ns + NOTICE_NS and not self.aeron.is_closed:
            self.script.fail(f"the archive does not notice that its driver died at {died_ns}")

    def _read_events(self) -> None:
        while not self._observer.is_closed and self._events.poll(lambda data, _: self.model.take(decode(data)), 100):
            pass

    def _check_events(self) -> None:
        self._read_events()
        if self.is_calm and not self._observer.is_closed:
            self.model.compare(self.archive, self.conductor)

    def _check_sessions(self) -> None:
        now_ns, sessions = self.now_ns, self.conductor._sessions._sessions
        for session_id, deadline_ns in list(self._ending.items()):
            if session_id not in sessions:
                del self._ending[session_id]
            elif now_ns > deadline_ns:
                self.script.fail(f"the session of a client that has gone goes on: {sessions[session_id][0]}")
        if self._heal_at_ns is None and now_ns - max(self._calm_since_ns, self._faults.last_ns) > ANSWER_NS:
            for client in self.clients:
                if client.answers is not None and now_ns - client.deaf_until_ns > ANSWER_NS:
                    client.answers.overdue(now_ns - ANSWER_NS)

    def _check_losses(self) -> None:
        if self._lost_by_ns is not None and self.now_ns > max(self._lost_by_ns, self._faults.last_ns + END_NS):
            self._lost_by_ns = None
            for client in self.clients:
                is_deaf = self.now_ns - client.deaf_until_ns < END_NS
                if client.answers in self._losing and client.has_session and not is_deaf:
                    self.script.fail(f"client {client.name} still has the session of an archive that has died")

    def _note(self, text: str) -> None:
        self.script.note(text)
