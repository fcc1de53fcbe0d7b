"""Name resolution among drivers: channels may name another driver, as in ``endpoint=other-driver:40123``.
Source: DriverNameResolver, DriverNameResolverCache.

Each driver sends its neighbours its own name and address every second, and all names it knows every two seconds. So a
driver that knows one neighbour soon knows all. :meth:`DriverNameResolver.do_work` runs on the conductor's thread;
names may be resolved on any thread.
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
"""Limits on cached names and neighbours, because anyone who reaches the port can announce them."""
WORK_INTERVAL_MS = 10
BATCH_DATAGRAMS = 16
NEIGHBORS_TYPE, CACHE_ENTRIES_TYPE, BOOTSTRAP_TYPE = 15, 16, 21
_V4_LENGTH, _V6_LENGTH = 4, 16
_ENTRY_OVERHEAD = 8 + 2 + 7
"""Bytes of an entry without its address and name: the fields before the address, the name's length, alignment."""


@dataclass(slots=True)
class _Entry:
    """A cached address of a name."""

    address: bytes
    port: int
    time_of_last_activity_ms: int


@dataclass(slots=True)
class _Bootstrap:
    """A bootstrap neighbour of the configuration."""

    name: str
    counter: AtomicCounter
    address: SocketAddress | None = None
    lookup: Task[SocketAddress] | None = None


class DriverNameResolver:
    """Resolves the names of drivers; ``fallback`` resolves all others. See
    :class:`~everlog.aeron.transport.media.name_resolver.NameResolver`. Raises :class:`UsageError` for a wrong resolver
    setting, and the errors of opening a socket."""

    name = "io.aeron.driver.DriverNameResolver"

    def __init__(self, context: DriverContext, media: MediaContext, fallback: NameResolver = DEFAULT_RESOLVER) -> None:
        configuration = context.configuration
        self._context = context
        self._fallback = fallback
        self._own_name = _own_name(configuration)
        self._mtu_length = configuration.mtu_length
        self._neighbor_timeout_ms = configuration.resolver_neighbor_timeout_ns // NS_PER_MS
        self._self_interval_ms = configuration.resolver_self_resolution_interval_ns // NS_PER_MS
        self._neighbor_interval_ms = configuration.resolver_neighbor_resolution_interval_ns // NS_PER_MS
        self._bootstrap_interval_ms = configuration.resolver_bootstrap_neighbor_resolution_interval_ns // NS_PER_MS
        self._counters = media.counters
        self._transport = _opened(_local_address(configuration, fallback), media)
        self._local = self._transport.socket.local_address
        self._batch = Datagrams(BATCH_DATAGRAMS)
        self._cache: dict[tuple[str, int], _Entry] = {}
        self._neighbors: dict[SocketAddress, int] = {}
        """Address to time of last activity, in milliseconds."""
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
        """Look up a name with the fallback resolver."""
        return self._fallback.lookup(name, parameter, is_re_lookup)

    def resolve(self, host: str, parameter: str, is_re_resolution: bool) -> str | None:
        """Resolve a driver's name from the cache, and any other name with the fallback resolver."""
        entry = self._cache.get((host, _V4_LENGTH)) or self._cache.get((host, _V6_LENGTH))
        if entry is not None:
            return _address(entry.address, entry.port).host
        if host == self._own_name:
            return self._local.host
        return self._fallback.resolve(host, parameter, is_re_resolution)

    @property
    def neighbors(self) -> list[SocketAddress]:
        """Addresses of the drivers that get this driver's announcements."""
        return list(self._neighbors)

    # The cycle

    def do_work(self, now_ms: int) -> int:
        """Receive, expire and send names, every ten milliseconds of a monotonic clock. Returns the amount of work done.
        Raises ``OSError``."""
        if now_ms < self._work_deadline_ms:
            return 0
        self._work_deadline_ms = now_ms + WORK_INTERVAL_MS
        work = self._receive(now_ms) + self._expire(now_ms)
        for bootstrap in self._bootstraps:
            self._finish_look_up(bootstrap)
        if self._self_deadline_ms <= now_ms:
            self._send_own_name(now_ms)
        if self._neighbor_deadline_ms <= now_ms:
            self._send_all_names(now_ms)
        if self._bootstraps and self._bootstrap_deadline_ms <= now_ms:
            self._bootstrap_deadline_ms = now_ms + self._bootstrap_interval_ms
            for bootstrap in self._bootstraps:
                if bootstrap.address not in self._neighbors:
                    self._look_up(bootstrap)
        return work

    def close(self) -> None:
        """Close the socket. The counters are not freed."""
        self._transport.close()

    # Receiving

    def _receive(self, now_ms: int) -> int:
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
                    self._on_entry(entry, self._batch.source(index), now_ms)
                    work += 1
        return work

    def _on_entry(self, entry: ResolutionEntry, source: SocketAddress, now_ms: int) -> None:
        raw = entry.address
        if entry.is_self and not any(raw) and len(source.raw) == len(raw):
            raw = source.raw  # the sender announced the wildcard address: use the one it sent from
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

    def _expire(self, now_ms: int) -> int:
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

    # Sending

    def _send_own_name(self, now_ms: int) -> None:
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

    def _send_all_names(self, now_ms: int) -> None:
        self._neighbor_deadline_ms = now_ms + self._neighbor_interval_ms
        entries: list[ResolutionEntry] = []
        length = 8
        for (name, _), entry in list(self._cache.items()):
            more = _ENTRY_OVERHEAD + len(entry.address) + len(name)
            if entries and length + more > self._mtu_length:
                self._send_entries(entries)
                entries, length = [], 8
            age_ms = min(max(now_ms - entry.time_of_last_activity_ms, 0), (1 << 31) - 1)
            entries.append(ResolutionEntry(name, entry.address, entry.port, age_ms))
            length += more
        if entries:
            self._send_entries(entries)

    def _send_entries(self, entries: list[ResolutionEntry]) -> None:
        frame = wire.encode(Resolution(tuple(entries)))
        for address in self._neighbors:
            self._send(frame, address)

    def _send(self, frame: bytes, address: SocketAddress) -> None:
        if self._transport.send_to(frame, address) < len(frame):
            self._counters.short_sends.increment_release()

    # Bootstrap neighbours

    def _bootstrap_neighbors(self, text: str) -> list[_Bootstrap]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        if len(names) > MAX_BOOTSTRAP_NEIGHBORS:
            raise UsageError(
                "aeron.driver.resolver.bootstrap.neighbor",
                found=str(len(names)),
                expected=f"a list of at most {MAX_BOOTSTRAP_NEIGHBORS} neighbours",
            )
        return [
            _Bootstrap(
                name, self._allocate(BOOTSTRAP_TYPE, _bootstrap_label(name, None), NeighborKey.pack(index=index))
            )
            for index, name in enumerate(names)
        ]

    def _look_up(self, bootstrap: _Bootstrap) -> None:
        """Start looking up a neighbour's address, as a task because it may take long."""
        if bootstrap.lookup is None:
            try:
                bootstrap.lookup = self._context.tasks.submit(
                    lambda: known_address(bootstrap.name, "endpoint", self._fallback)
                )
            except UsageError as error:
                self._set_address(bootstrap, error)

    def _finish_look_up(self, bootstrap: _Bootstrap) -> None:
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
    """The resolver's UDP socket."""

    def close(self) -> None:
        """Close the socket. Idempotent."""
        self._close_sockets()


def _own_name(configuration: Configuration) -> str:
    name = configuration.resolver_name or ""
    if not name or not name.isascii() or len(name) > wire.MAX_NAME_LENGTH:
        expected = f"1 to {wire.MAX_NAME_LENGTH} ASCII characters"
        raise UsageError("aeron.driver.resolver.name", found=repr(name), expected=expected)
    return name


def _local_address(configuration: Configuration, fallback: NameResolver) -> SocketAddress:
    text = configuration.resolver_interface
    wanted = ANY_INTERFACE if not text else parse_interface(text, fallback)
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
