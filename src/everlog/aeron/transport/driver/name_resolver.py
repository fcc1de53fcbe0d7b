"""Drivers that tell each other their names: a channel may say ``endpoint=other-driver:40123``.
Source: DriverNameResolver, DriverNameResolverCache.

A machine of the conductor's thread (:meth:`DriverNameResolver.do_work`); names may be asked for from another one. Each
driver tells its neighbours its own name and address every second, and all that it knows every two: who knows one
neighbour soon knows all.
"""

from __future__ import annotations

from dataclasses import dataclass

from everlog.aeron.transport.driver.context import DriverContext
from everlog.aeron.transport.driver.settings.configuration import Configuration
from everlog.aeron.transport.format.layouts import NeighborKey
from everlog.aeron.transport.media.context import MediaContext
from everlog.aeron.transport.media.interfaces import ANY_INTERFACE, InterfaceSearch, parse_interface
from everlog.aeron.transport.media.name_resolver import DEFAULT_RESOLVER, NameResolver, known_address
from everlog.aeron.transport.media.transport import BufferLengths, Ends, UdpTransport
from everlog.aeron.transport.media.udp_channel import UdpChannel
from everlog.aeron.transport.memory.counters_memory import AtomicCounter
from everlog.aeron.transport.protocol import wire
from everlog.aeron.transport.protocol.wire_resolution import Resolution, ResolutionEntry
from everlog.errors import CorruptData, UsageError
from everlog.kernel.socket_address import SocketAddress
from everlog.kernel.udp import Datagrams
from everlog.runtime.tasks import Task
from everlog.time_units import NS_PER_MS

MAX_BOOTSTRAP_NEIGHBORS = 20
MAX_CACHE_ENTRIES = 4096
MAX_NEIGHBORS = 256
"""Anyone who reaches the port can tell names and neighbours: more than these are not believed."""
WORK_INTERVAL_MS = 10
BATCH_DATAGRAMS = 16
NEIGHBORS_TYPE, CACHE_ENTRIES_TYPE, BOOTSTRAP_TYPE = 15, 16, 21
_V4_LENGTH, _V6_LENGTH = 4, 16
_ENTRY_OVERHEAD = 8 + 2 + 7
"""Of an entry: what stands before its address, its name's length, and alignment."""


@dataclass(slots=True)
class _Entry:
    """What is known of a name."""

    address: bytes
    port: int
    time_of_last_activity_ms: int


@dataclass(slots=True)
class _Bootstrap:
    """A neighbour that the configuration names."""

    name: str
    counter: AtomicCounter
    address: SocketAddress | None = None
    lookup: Task[SocketAddress] | None = None


class DriverNameResolver:
    """See :class:`~everlog.aeron.transport.media.name_resolver.NameResolver`. ``beyond`` knows other names. Raises
    :class:`UsageError` for a configuration without a name, and what opening a socket raises."""

    name = "io.aeron.driver.DriverNameResolver"

    def __init__(self, context: DriverContext, media: MediaContext, beyond: NameResolver = DEFAULT_RESOLVER) -> None:
        configuration = context.configuration
        self._context = context
        self._beyond = beyond
        self._own_name = _own_name(configuration)
        self._mtu_length = configuration.mtu_length
        self._neighbor_timeout_ms = configuration.resolver_neighbor_timeout_ns // NS_PER_MS
        self._self_interval_ms = configuration.resolver_self_resolution_interval_ns // NS_PER_MS
        self._neighbor_interval_ms = configuration.resolver_neighbor_resolution_interval_ns // NS_PER_MS
        self._bootstrap_interval_ms = configuration.resolver_bootstrap_neighbor_resolution_interval_ns // NS_PER_MS
        self._counters = media.counters
        self._transport = _opened(_local_address(configuration, beyond), media)
        self._local = self._transport.socket.local_address
        self._batch = Datagrams(BATCH_DATAGRAMS)
        self._cache: dict[tuple[str, int], _Entry] = {}
        self._neighbors: dict[SocketAddress, int] = {}
        """Address to the time of the last activity, in milliseconds."""
        self._neighbors_counter = self._allocate(
            NEIGHBORS_TYPE, f"Resolver neighbors: bound {self._transport.bind_address_and_port}"
        )
        self._cache_counter = self._allocate(CACHE_ENTRIES_TYPE, f"Resolver cache entries: name={self._own_name}")
        self._bootstraps = self._bootstrap_neighbors(configuration.resolver_bootstrap_neighbor or "")
        now_ms = context.now_ns // NS_PER_MS
        self._work_deadline_ms = self._self_deadline_ms = 0
        self._neighbor_deadline_ms = now_ms + self._neighbor_interval_ms
        self._bootstrap_deadline_ms = now_ms + self._bootstrap_interval_ms
        for bootstrap in self._bootstraps:
            self._look_up(bootstrap)

    # Names

    def lookup(self, name: str, parameter: str, is_re_lookup: bool) -> str:
        """As the resolver beyond."""
        return self._beyond.lookup(name, parameter, is_re_lookup)

    def resolve(self, host: str, parameter: str, is_re_resolution: bool) -> str | None:
        """A driver's address, or what the resolver beyond says."""
        entry = self._cache.get((host, _V4_LENGTH)) or self._cache.get((host, _V6_LENGTH))
        if entry is not None:
            return _address(entry.address, entry.port).host
        if host == self._own_name:
            return self._local.host
        return self._beyond.resolve(host, parameter, is_re_resolution)

    @property
    def neighbors(self) -> list[SocketAddress]:
        """The drivers that are told."""
        return list(self._neighbors)

    # The machine

    def do_work(self, now_ms: int) -> int:
        """Every ten milliseconds, by a clock that never goes back: listen, forget, tell; how much was done. Raises
        ``OSError``."""
        if now_ms < self._work_deadline_ms:
            return 0
        self._work_deadline_ms = now_ms + WORK_INTERVAL_MS
        work = self._listen(now_ms) + self._forget(now_ms)
        for bootstrap in self._bootstraps:
            self._take_up(bootstrap)
        if self._self_deadline_ms <= now_ms:
            self._tell_own_name(now_ms)
        if self._neighbor_deadline_ms <= now_ms:
            self._tell_all_names(now_ms)
        if self._bootstraps and self._bootstrap_deadline_ms <= now_ms:
            self._bootstrap_deadline_ms = now_ms + self._bootstrap_interval_ms
            for bootstrap in self._bootstraps:
                if bootstrap.address not in self._neighbors:
                    self._look_up(bootstrap)
        return work

    def close(self) -> None:
        """Close the socket; counters stay as long as the driver's memory."""
        self._transport.close()

    # What others tell

    def _listen(self, now_ms: int) -> int:
        work = 0
        for index in range(self._transport.receive(self._batch)):
            view = self._batch.view(index)
            try:
                frame = wire.decode(view)
            except CorruptData:
                self._counters.invalid_packets.increment_release()
                continue
            if isinstance(frame, Resolution):
                for entry in frame.entries:
                    self._hear(entry, self._batch.source(index), now_ms)
                    work += 1
        return work

    def _hear(self, entry: ResolutionEntry, source: SocketAddress, now_ms: int) -> None:
        raw = entry.address
        if entry.is_self and not any(raw) and len(source.raw) == len(raw):
            raw = source.raw  # bound to all its addresses: the one that it sends from will do
        if entry.port == self._local.port and entry.name == self._own_name:
            return
        last_ms = now_ms - max(entry.age_ms, 0)
        key = (entry.name, len(raw))
        if key in self._cache or len(self._cache) < MAX_CACHE_ENTRIES:
            self._cache[key] = _Entry(raw, entry.port, last_ms)
            self._cache_counter.set_release(len(self._cache))
        address = _address(raw, entry.port)
        known = address in self._neighbors
        if (known and entry.is_self) or (not known and len(self._neighbors) < MAX_NEIGHBORS):
            self._neighbors[address] = last_ms
            self._neighbors_counter.set_release(len(self._neighbors))

    def _forget(self, now_ms: int) -> int:
        oldest_ms = now_ms - self._neighbor_timeout_ms
        names = [key for key, entry in self._cache.items() if entry.time_of_last_activity_ms < oldest_ms]
        addresses = [address for address, last_ms in self._neighbors.items() if last_ms <= oldest_ms]
        for key in names:
            del self._cache[key]
        for address in addresses:
            del self._neighbors[address]
        if names:
            self._cache_counter.set_release(len(self._cache))
        if addresses:
            self._neighbors_counter.set_release(len(self._neighbors))
        return len(names) + len(addresses)

    # What is told

    def _tell_own_name(self, now_ms: int) -> None:
        if not self._bootstraps and not self._neighbors:
            return
        own = ResolutionEntry(self._own_name, self._local.raw, self._local.port, 0, True)
        frame = wire.encode(Resolution((own,)))
        addresses = [bootstrap.address for bootstrap in self._bootstraps if bootstrap.address is not None]
        for address in dict.fromkeys([*addresses, *self._neighbors]):
            self._send(frame, address)
        for bootstrap in self._bootstraps:
            bootstrap.counter.set_release(int(bootstrap.address in self._neighbors))
        self._self_deadline_ms = now_ms + self._self_interval_ms

    def _tell_all_names(self, now_ms: int) -> None:
        self._neighbor_deadline_ms = now_ms + self._neighbor_interval_ms
        entries: list[ResolutionEntry] = []
        length = 8
        for (name, _), entry in list(self._cache.items()):
            more = _ENTRY_OVERHEAD + len(entry.address) + len(name)
            if entries and length + more > self._mtu_length:
                self._tell(entries)
                entries, length = [], 8
            age_ms = min(max(now_ms - entry.time_of_last_activity_ms, 0), (1 << 31) - 1)
            entries.append(ResolutionEntry(name, entry.address, entry.port, age_ms))
            length += more
        if entries:
            self._tell(entries)

    def _tell(self, entries: list[ResolutionEntry]) -> None:
        frame = wire.encode(Resolution(tuple(entries)))
        for address in self._neighbors:
            self._send(frame, address)

    def _send(self, frame: bytes, address: SocketAddress) -> None:
        if self._transport.send_to(frame, address) < len(frame):
            self._counters.short_sends.increment_release()

    # Neighbours that the configuration names

    def _bootstrap_neighbors(self, text: str) -> list[_Bootstrap]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        if len(names) > MAX_BOOTSTRAP_NEIGHBORS:
            raise UsageError(
                "aeron.driver.resolver.bootstrap.neighbor",
                found=f"{len(names)} neighbours",
                expected=f"{MAX_BOOTSTRAP_NEIGHBORS} at most",
            )
        return [
            _Bootstrap(
                name, self._allocate(BOOTSTRAP_TYPE, _bootstrap_label(name, None), NeighborKey.pack(index=index))
            )
            for index, name in enumerate(names)
        ]

    def _look_up(self, bootstrap: _Bootstrap) -> None:
        """May take long: it is done elsewhere."""
        if bootstrap.lookup is None:
            try:
                bootstrap.lookup = self._context.tasks.submit(
                    lambda: known_address(bootstrap.name, "endpoint", self._beyond)
                )
            except UsageError as error:
                self._set_address(bootstrap, error)

    def _take_up(self, bootstrap: _Bootstrap) -> None:
        if bootstrap.lookup is not None and bootstrap.lookup.done():
            lookup, bootstrap.lookup = bootstrap.lookup, None
            try:
                self._set_address(bootstrap, lookup.result())
            except UsageError as error:
                self._set_address(bootstrap, error)

    def _set_address(self, bootstrap: _Bootstrap, found: SocketAddress | UsageError) -> None:
        if isinstance(found, UsageError):
            self._context.errors.record(found)
        bootstrap.address = found if isinstance(found, SocketAddress) else None
        label = _bootstrap_label(bootstrap.name, bootstrap.address)
        self._context.counters.set_label(bootstrap.counter.id, label)

    def _allocate(self, type_id: int, label: str, key: bytes = b"") -> AtomicCounter:
        return self._context.counters.allocate(type_id, key, label, now_ms=self._context.now_ms)


class _ResolverTransport(UdpTransport):
    """The resolver's socket."""

    def close(self) -> None:
        """Close it; may be called again."""
        self._close_sockets()


def _own_name(configuration: Configuration) -> str:
    name = configuration.resolver_name or ""
    if not name or not name.isascii() or len(name) > wire.MAX_NAME_LENGTH:
        expected = f"1 to {wire.MAX_NAME_LENGTH} ASCII letters"
        raise UsageError("aeron.driver.resolver.name", found=repr(name), expected=expected)
    return name


def _local_address(configuration: Configuration, beyond: NameResolver) -> SocketAddress:
    text = configuration.resolver_interface
    wanted = ANY_INTERFACE if not text else parse_interface(text, beyond)
    if not isinstance(wanted, InterfaceSearch):
        raise UsageError("aeron.driver.resolver.interface", found=repr(text), expected="HOST:PORT")
    return wanted.address


def _opened(local: SocketAddress, media: MediaContext) -> _ResolverTransport:
    channel = UdpChannel.parse(f"aeron:udp?endpoint={local}")
    lengths = BufferLengths.of(channel, media)
    transport = _ResolverTransport(channel, Ends(local, local, None), lengths, media.receiver_ports, media)
    transport.open_sockets(None)
    return transport


def _address(raw: bytes, port: int) -> SocketAddress:
    scope = bytes(4) if len(raw) == _V6_LENGTH else b""
    return SocketAddress.from_packed(raw + port.to_bytes(2, "big") + scope)


def _bootstrap_label(name: str, address: SocketAddress | None) -> str:
    return f"Bootstrap neighbor: name={name} resolved={'' if address is None else address}"
