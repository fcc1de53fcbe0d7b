"""The machines of a live archive, without a driver: control sessions, recordings, replays, lists and maintenance over
streams that are full, refused or gone whenever the seed says so, on a storage that crashes. Some milliseconds each::

    MachineSimulation(seed=7).run()
"""

from __future__ import annotations

import errno
import itertools
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

from everlog.aeron.archive.archive import Archive
from everlog.aeron.archive.protocol.codec import decode
from everlog.aeron.archive.recording.options import ArchiveOptions
from everlog.aeron.archive.service.conductor import ArchiveConductor
from everlog.aeron.archive.service.context import ServiceContext
from everlog.aeron.archive.service.counters import ArchiveCounters, CycleThresholds
from everlog.aeron.archive.service.settings.settings import ArchiveSettings
from everlog.aeron.archive.service.upkeep.deletion import Deletion
from everlog.aeron.family_options import Checksum
from everlog.aeron.transport.client.conducting.runner import Clock
from everlog.testing.archive.answers import Answers
from everlog.testing.archive.choices import SEGMENT_LENGTH, STREAMS
from everlog.testing.archive.crash import Crash, PowerCut
from everlog.testing.archive.doubles import ControlImage, DriverClientDouble, RecordedImage, SubscribedDouble
from everlog.testing.archive.events_model import EventsModel
from everlog.testing.archive.machine_client import MachineClient
from everlog.testing.archive.published import Published, message_of
from everlog.testing.archive.quiet import quiet
from everlog.testing.archive.script import Script
from everlog.testing.archive.watch import Watch
from everlog.testing.storage.crashing import CrashingStorage
from everlog.testing.storage.faulty_writes import FaultyWrites, WriteFaults
from everlog.time_units import NS_PER_MS, NS_PER_S

STEPS = 40
CALM_STEPS = 12
"""At the end: no maintenance, so that a listing and the events say everything."""
SETTLING = 32
"""Steps after that without requests: everything is answered, and sessions without a client end."""
CONNECT_TIMEOUT_NS, INTERVAL_NS = 500 * NS_PER_MS, 100 * NS_PER_MS
LONG_STEP_NS = 200 * NS_PER_MS
ANSWER_NS = 2 * NS_PER_S
EVENTS_STREAM = 30


class MachineSimulation:
    """One archive and three clients. ``run`` raises :class:`SimulationFailed` if an invariant does not hold."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.script = Script(f"python -m everlog.testing.archive.soak --machine-seed {seed}")
        self.script.now_ns = NS_PER_S
        self.counts: Counter[str] = Counter()
        self.ids: Iterator[int] = itertools.count(10_000)
        self.published = Published()
        self.model = EventsModel(self.script)
        self.listening: set[int] = {EVENTS_STREAM}
        self.all_answers: list[Answers] = []
        self.is_calm = False
        level = 1 if self.random.random() < 0.7 else 0
        self.watch = Watch(self.script, self.published, is_synced=level > 0)
        # Without checksums a torn frame of a power cut may look whole.
        checksum: Checksum = "crc32c" if level and self.random.random() < 0.7 else "none"
        self._may_cut_power = checksum != "none"
        self._settings = ArchiveSettings(
            segment_file_length=SEGMENT_LENGTH,
            file_io_max_length=64 << 10,
            low_storage_space_threshold=0,
            file_sync_level=level,
            catalog_file_sync_level=level,
            max_concurrent_recordings=4,
            max_concurrent_replays=5,
            record_checksum=checksum,
            replay_checksum=checksum,
            connect_timeout_ns=CONNECT_TIMEOUT_NS,
            session_liveness_check_interval_ns=INTERVAL_NS,
            recording_events_channel="aeron:ipc",
            recording_events_stream_id=EVENTS_STREAM,
        )
        self._storage = CrashingStorage(root="/", edge_bytes=4096)
        self._crash: Crash | None = None
        self._broken_steps = 0
        """How long the disk still fails."""
        self._images: list[RecordedImage] = []
        self._arriving: list[tuple[int, int, int]] = []
        self._limits: list[Any] = []
        self._ending: dict[int, int] = {}
        self._clients = [MachineClient(self, str(number)) for number in range(3)]

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
        self._disk = FaultyWrites(self._storage)
        self.archive = Archive.create(self._disk, options, exist_ok=True)
        script = self.script
        clock = Clock(lambda: script.now_ns, lambda: script.now_ns // NS_PER_MS, script.sleep)
        self.aeron = DriverClientDouble(self.random, self.listening.__contains__, clock)
        aeron: Any = self.aeron
        context = ServiceContext(
            aeron=aeron,
            archive=self.archive,
            archive_id=1,
            settings=settings,
            on_error=self.watch.on_error,
            now_ms=lambda: self.script.now_ns // NS_PER_MS,
        )
        thresholds = CycleThresholds(NS_PER_S, NS_PER_S, NS_PER_S)
        self._counters = ArchiveCounters(aeron, 1, thresholds, lambda: self.script.now_ns)
        self.conductor = ArchiveConductor(context, self._counters)
        control: Any = self.conductor._controls[0]
        self.control: SubscribedDouble = control
        self.watch.open(self.archive, self.conductor, self._storage)

    def _reopen(self, storage: CrashingStorage) -> None:
        """Begin again after a crash or a close."""
        maintained = self.maintained()
        for image in self._images:
            image.is_closed = True
        self._images.clear()
        self._arriving.clear()
        self._limits.clear()
        self._ending.clear()
        self.all_answers.clear()
        for client in self._clients:
            client.forget()
        self.model.reset()
        self._storage = storage
        self._broken_steps = 0
        self._open()
        self.watch.check_recovered(maintained)

    def maintained(self) -> set[int]:
        """The recordings whose maintenance is under way."""
        found = {each.recording_id for each in self.conductor._running if isinstance(each, Deletion)}
        return found.union(*(each.maintained() for each in self.all_answers))

    def _close(self) -> None:
        if self._broken_steps > 0:
            return
        self.script.note("the archive is closed and opened again")
        self.watch.remember()
        is_maintained = bool(self.maintained())
        self.conductor.close()
        self.archive.close()
        self._counters.close()
        left = list(self.aeron.counters)
        self.script.require(len(left) == len(self._limits), f"after a close there are counters: {left}")
        self._reopen(self._storage)
        recovered = self.archive.recovered
        self.script.require(is_maintained or not recovered, f"after a close there is something to do: {recovered}")

    def _die(self, left: CrashingStorage) -> None:
        self.script.note("the archive has crashed")
        self._crash = None
        self._disk.faults = WriteFaults()
        self.watch.learn()
        self.archive.abandon()
        self._reopen(left)

    # Surroundings

    def expect_end(self, session_id: int) -> None:
        """The client of a session is no more: it must end in time."""
        self._ending[session_id] = self.script.now_ns + CONNECT_TIMEOUT_NS + INTERVAL_NS + 3 * LONG_STEP_NS

    def remove_image(self, image: ControlImage) -> None:
        """A client's requests end."""
        if image in self.control.images:
            image.is_closed = True
            self.control.images = tuple(each for each in self.control.images if each is not image)
            self.control.on_gone(image)

    def publish_later(self, stream_id: int, position: int) -> None:
        """Have somebody publish a stream from a position on, in some cycles."""
        self._arriving.append((self.random.randrange(8), stream_id, position))

    def limit_counter(self) -> int | None:
        """The id of a counter that limits replays."""
        if self.random.random() < 0.3:
            self._limits.append(self.aeron.add_counter(2000, "limit"))
        return self.random.choice(self._limits).counter_id if self._limits else None

    def _publish(self) -> None:
        generator = self.random
        for waiting in self._arriving[:]:
            cycles, stream_id, position = waiting
            self._arriving.remove(waiting)
            if cycles:
                self._arriving.append((cycles - 1, stream_id, position))
            else:
                self._arrive(stream_id, position)
        if len(self._images) < 5 and generator.random() < 0.1:
            position = generator.choice((0, 0, 32 * generator.randrange(6000)))
            self._arrive(generator.choice(STREAMS), position)
        for image in self._images[:]:
            if image.is_closed or generator.random() < 0.01:
                image.is_ending = True
                self._images.remove(image)
            elif generator.random() < 0.4:
                for _ in range(generator.choice((1, 2, 10))):
                    image.publish(message_of(generator))
        for counter in self._limits:
            if generator.random() < 0.2:
                counter.value += 32 * generator.randrange(200)
        if self._limits and generator.random() < 0.02:
            self._limits.pop(generator.randrange(len(self._limits))).close()

    def _arrive(self, stream_id: int, position: int) -> None:
        session_id = next(self.ids)
        image = RecordedImage(self.published.begin(session_id, position), stream_id)
        self._images.append(image)
        self.aeron.arrive(image)

    # Time

    def run(self) -> Counter[str]:
        """Run to the end; returns what has happened, counted."""
        with quiet(self.seed):
            return self._run()

    def _run(self) -> Counter[str]:
        self._open()
        try:
            for number in range(STEPS + CALM_STEPS):
                self.is_calm = number >= STEPS
                self.step()
            self._disk.faults = WriteFaults()
            for number in range(SETTLING):
                self._turn(10 * NS_PER_MS if number < SETTLING // 2 else LONG_STEP_NS)
            self.watch.check_stopped()
            return self._result()
        finally:
            self._storage.after_each = None
            self._disk.faults = WriteFaults()
            self.archive.abandon()

    def step(self) -> None:
        """Let everybody do something."""
        generator = self.random
        long_step = generator.random() < 0.02
        self.script.now_ns += LONG_STEP_NS if long_step else generator.randrange(1, 20) * NS_PER_MS
        clients = generator.sample(self._clients, len(self._clients))
        for client in clients:
            client.act()
        self._publish()
        self._trouble()
        self._turn(0)
        for client in clients:
            client.read()

    @property
    def may_maintain(self) -> bool:
        """Whether maintenance may be asked for: not while the disk fails, which leaves it half done."""
        return not self.is_calm and self._broken_steps <= 0

    def _trouble(self) -> None:
        generator = self.random
        self._broken_steps -= 1
        if self._broken_steps == 0:
            self._disk.faults = WriteFaults()
            self.script.note("the disk works again")
        elif self._broken_steps < 0 and not self.is_calm and generator.random() < 0.02 and not self.maintained():
            self._broken_steps = generator.randrange(1, 12)
            operations = generator.choice((("write", "truncate"), ("sync",), ("write", "truncate", "sync")))
            self._disk.faults = WriteFaults(
                fail_at=self._disk.operation_count,
                count=1 << 40,
                operations=frozenset(operations),
                error=errno.EIO,
                # Without checksums a half written frame may look whole if the archive dies before it is cut off.
                part_bytes=None if self._may_cut_power else 0,
            )
            self.counts["disk faults"] += 1
            self.script.note(f"the disk fails: {operations}")
        if self._crash is None and generator.random() < 0.02:
            seed = generator.getrandbits(32) if self._may_cut_power and generator.random() < 0.7 else None
            self._crash = Crash(self._storage, generator.randrange(1, 40), seed)
        elif self._crash is None and generator.random() < 0.005:
            self._close()

    def _turn(self, passed_ns: int) -> None:
        """One cycle of the archive, and all checks."""
        self.script.now_ns += passed_ns
        if self._crash is not None:
            self.watch.remember()
        try:
            self.conductor.do_work(self.script.now_ns)
        except PowerCut:
            assert self._crash is not None
            assert self._crash.left is not None
            self._die(self._crash.left)
            return
        self.watch.check()
        self._check_events()
        self._check_sessions()
        if passed_ns:
            for client in self._clients:
                client.read(is_eager=True)

    def _check_events(self) -> None:
        events = self.aeron.publications[EVENTS_STREAM]
        while events.messages:
            self.model.take(decode(events.messages.popleft()))
        events.read()
        if self.is_calm:
            self.model.compare(self.archive, self.conductor)

    def _check_sessions(self) -> None:
        now_ns, sessions = self.script.now_ns, self.conductor._sessions._sessions
        for session_id, deadline_ns in list(self._ending.items()):
            if session_id not in sessions:
                del self._ending[session_id]
            elif now_ns > deadline_ns:
                self.script.fail(f"the session of a client that has gone goes on: {sessions[session_id][0]}")
        for client in self._clients:
            if client.answers is not None:
                client.answers.overdue(now_ns - ANSWER_NS)

    def _result(self) -> Counter[str]:
        counts = self.counts + self.watch.counts
        for client in self._clients:
            counts += client.counts
        counts["comparisons"] += self.model.comparisons
        return counts
