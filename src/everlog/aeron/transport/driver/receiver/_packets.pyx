# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Writes data frames from the network into images' terms. Twin:
:mod:`everlog.aeron.transport.driver.receiver.packets_twin`, which has the documentation."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

from everlog.kernel._atomics cimport acquire_i64, release_i64
from everlog.kernel._memory cimport Memory
from everlog.kernel._udp cimport Datagrams
from everlog.aeron.transport.memory._terms cimport (
    DATA_HEADER_FLAGS, DATA_HEADER_SESSION_ID, DATA_HEADER_STREAM_ID, DATA_HEADER_TERM_ID, DATA_HEADER_TERM_OFFSET,
    FLAG_BEGIN, HEADER, TYPE_DATA, TYPE_PADDING, align32, load_i32, load_i64, type_of,
)

from everlog.aeron.transport.driver.receiver import packets_twin as _twin

cdef enum:
    CONTROL = 0
    NEW_SESSION = 1
    NEW_CONNECTION = 2
    END_OF_STREAM = 3
    INVALID = -1
    FLAG_EOS = 0x20
    MIN_HEADER_LENGTH = 8
    MAX_TRANSPORTS = 1024
    VERSION_OFFSET = 4
    RESERVED_VALUE_OFFSET = 24
    MIN_TABLE = 16
    FEW = 8             # up to this number, datagrams take less time than releasing and regaining the GIL
    CONTROL_TYPES = 0x8FC   # a bit for each of 2..7 and 11

cdef int64_t NO_TIME = <int64_t>(<uint64_t>1 << 63)

assert (CONTROL, NEW_SESSION, NEW_CONNECTION, END_OF_STREAM, INVALID, FLAG_EOS, MIN_HEADER_LENGTH, MAX_TRANSPORTS) == (
    _twin.CONTROL, _twin.NEW_SESSION, _twin.NEW_CONNECTION, _twin.END_OF_STREAM, _twin.INVALID, _twin.FLAG_EOS,
    _twin.MIN_HEADER_LENGTH, _twin.MAX_TRANSPORTS,
)
assert CONTROL_TYPES == sum(1 << kind for kind in _twin.CONTROL_TYPES) and NO_TIME == _twin.NO_TIME


cdef struct image_t:
    char* terms[3]
    int64_t term_length
    int term_shift
    int32_t initial_term_id
    int64_t* hwm_counter        # published for others; any process may overwrite it
    int64_t hwm_position        # the receiver thread's own copy
    int64_t last_sm_position
    int64_t over_run_threshold
    int64_t max_window_length
    int64_t timestamp_offset
    int64_t time_of_last_packet_ns
    bint is_rejected
    int64_t* heard              # time of last packet, per transport
    int transport_count


cdef struct slot_t:
    uint64_t key
    image_t* image
    bint used


cdef struct table_t:
    # Open addressing, at most half full; the number of slots is a power of two.
    slot_t* slots
    int64_t capacity
    int64_t count


cdef struct batch_t:
    int64_t received
    int64_t invalid
    int64_t heartbeats
    int64_t under_runs
    int64_t over_runs
    int64_t note_count
    int32_t* notes              # pairs of index and kind, at most two per datagram


cdef inline uint64_t key_of(int32_t stream_id, int32_t session_id) noexcept nogil:
    return <uint64_t><uint32_t>stream_id << 32 | <uint32_t>session_id


cdef inline int64_t place_of(table_t* table, uint64_t key) noexcept nogil:
    # Both halves of the key affect all kept bits of the product.
    return <int64_t>(((key ^ key >> 32) * <uint64_t>0x9E3779B97F4A7C15) >> 20) & (table.capacity - 1)


cdef slot_t* find(table_t* table, uint64_t key) noexcept nogil:
    cdef int64_t at
    if table.capacity == 0:
        return NULL
    at = place_of(table, key)
    while table.slots[at].used:
        if table.slots[at].key == key:
            return &table.slots[at]
        at = (at + 1) & (table.capacity - 1)
    return NULL


cdef int put_slot(table_t* table, uint64_t key, image_t* image) except -1:
    cdef slot_t* slot = find(table, key)
    cdef int64_t at
    if slot == NULL:
        if (table.count + 1) * 2 > table.capacity:
            grow(table)
        at = place_of(table, key)
        while table.slots[at].used:
            at = (at + 1) & (table.capacity - 1)
        slot = &table.slots[at]
        slot.used = True
        slot.key = key
        table.count += 1
    slot.image = image
    return 0


cdef int grow(table_t* table) except -1:
    cdef table_t larger
    cdef int64_t i
    larger.capacity = table.capacity * 2 if table.capacity else MIN_TABLE
    larger.count = 0
    larger.slots = <slot_t*>calloc(larger.capacity, sizeof(slot_t))
    if larger.slots == NULL:
        raise MemoryError()
    for i in range(table.capacity):
        if table.slots[i].used:
            put_slot(&larger, table.slots[i].key, table.slots[i].image)
    free(table.slots)
    table[0] = larger
    return 0


cdef void drop_slot(table_t* table, uint64_t key) noexcept nogil:
    # Entries displaced by this slot's entry move up, so that no search ends too soon.
    cdef slot_t* slot = find(table, key)
    cdef int64_t hole, at, home
    if slot == NULL:
        return
    hole = slot - table.slots
    at = hole
    while True:
        at = (at + 1) & (table.capacity - 1)
        if not table.slots[at].used:
            break
        home = place_of(table, table.slots[at].key)
        if ((at - home) & (table.capacity - 1)) >= ((at - hole) & (table.capacity - 1)):
            table.slots[hole] = table.slots[at]
            hole = at
    table.slots[hole].used = False
    table.slots[hole].image = NULL
    table.count -= 1


cdef int64_t packet_length(image_t* image, const char* packet, int64_t length) noexcept nogil:
    cdef int64_t at = 0, frame_length, term_offset = load_i32(packet + DATA_HEADER_TERM_OFFSET)
    cdef int kind = -1
    if term_offset < 0 or term_offset >= image.term_length or term_offset & (HEADER - 1):
        return INVALID
    if length == HEADER and load_i32(packet) == 0:
        return 0
    while at <= length - HEADER:
        frame_length = load_i32(packet + at)
        kind = type_of(packet + at)
        if frame_length < HEADER or (kind != TYPE_DATA and kind != TYPE_PADDING):
            return INVALID
        if load_i32(packet + at + DATA_HEADER_TERM_OFFSET) != term_offset + at:
            return INVALID
        if align32(frame_length) > image.term_length - term_offset - at:
            return INVALID
        at += align32(frame_length)
    return at if at == length or (at > length and kind == TYPE_PADDING) else INVALID


cdef void stamp(image_t* image, char* packet, int64_t length, int64_t time_ns) noexcept nogil:
    cdef int64_t at = 0, frame_length
    while at < length:
        frame_length = load_i32(packet + at)
        if (
            type_of(packet + at) == TYPE_DATA and <uint8_t>packet[at + DATA_HEADER_FLAGS] & FLAG_BEGIN
            and image.timestamp_offset + 8 <= frame_length and frame_length <= length - at
        ):
            memcpy(packet + at + image.timestamp_offset, &time_ns, 8)
        at += align32(frame_length)


cdef inline void write_packet(
    image_t* image, char* packet, int64_t length, int64_t position, int64_t time_ns
) noexcept nogil:
    # The frames' length was checked against the term's end, and the datagram is not longer.
    cdef char* term = image.terms[(position >> image.term_shift) % 3]
    cdef int64_t offset = position & (image.term_length - 1)
    if load_i32(term + offset) != 0:
        return
    if image.timestamp_offset >= 0:
        stamp(image, packet, length, time_ns)
    memcpy(term + offset + 8, packet + 8, length - 8)
    release_i64(term + offset, load_i64(packet))


cdef inline bint hear_transport(image_t* image, int transport, int64_t now_ns) noexcept nogil:
    # A new transport stays new until the caller adds it, after a note.
    if transport >= image.transport_count or image.heard[transport] == NO_TIME:
        return True
    image.heard[transport] = now_ns
    return False


cdef inline void note(batch_t* batch, int index, int kind) noexcept nogil:
    batch.notes[2 * batch.note_count] = index
    batch.notes[2 * batch.note_count + 1] = kind
    batch.note_count += 1


cdef void insert_packet(
    image_t* image, batch_t* batch, int index, char* packet, int64_t length, int transport, int64_t now_ns,
    int64_t time_ns,
) noexcept nogil:
    cdef int64_t taken = packet_length(image, packet, length), position, bottom
    if taken == INVALID:
        batch.invalid += 1
        return
    # The difference of two term ids wraps, as Java's does.
    position = <int64_t><int32_t>(
        <uint32_t>load_i32(packet + DATA_HEADER_TERM_ID) - <uint32_t>image.initial_term_id
    ) * image.term_length + load_i32(packet + DATA_HEADER_TERM_OFFSET)
    if position + (length if taken else 0) > image.over_run_threshold:
        batch.over_runs += 1
        return
    if taken == 0:
        bottom = image.last_sm_position - image.term_length
        if position < (bottom if bottom > 0 else 0):
            batch.under_runs += 1
            return
        batch.heartbeats += 1
    elif position < image.last_sm_position or position < 0:
        batch.under_runs += 1
        if position >= image.last_sm_position - image.max_window_length and hear_transport(image, transport, now_ns):
            note(batch, index, NEW_CONNECTION)
        return
    else:
        write_packet(image, packet, length, position, time_ns)
    image.time_of_last_packet_ns = now_ns
    if hear_transport(image, transport, now_ns):
        note(batch, index, NEW_CONNECTION)
    if taken == 0 and <uint8_t>packet[DATA_HEADER_FLAGS] & FLAG_EOS:
        note(batch, index, END_OF_STREAM)
    if position + taken > image.hwm_position:
        release_i64(&image.hwm_position, position + taken)
        release_i64(image.hwm_counter, position + taken)


cdef class ImageRebuilder:
    cdef image_t image
    cdef object _kept

    def __cinit__(self, terms, int32_t initial_term_id, int64_t start_position, hwm):
        cdef Memory counter = hwm[0]
        cdef Memory term
        cdef int64_t offset = hwm[1]
        cdef int i
        memset(&self.image, 0, sizeof(image_t))
        length = len(terms[0]) if len(terms) == 3 else 0
        if length < HEADER or length & (length - 1) or any(len(each) != length for each in terms):
            raise ValueError("three terms of one length, a power of two, are meant")
        counter.put_i64_release(offset, start_position)
        self._kept = (*terms, counter)
        for i in range(3):
            term = self._kept[i]
            if not term.writable:
                raise TypeError("this memory is read-only")
            self.image.terms[i] = term.data
        self.image.term_length = length
        self.image.term_shift = length.bit_length() - 1
        self.image.initial_term_id = initial_term_id
        self.image.hwm_counter = <int64_t*>(counter.data + offset)
        self.image.hwm_position = self.image.last_sm_position = start_position
        self.image.timestamp_offset = -1

    def __dealloc__(self):
        free(self.image.heard)

    @property
    def hwm_position(self):
        return acquire_i64(&self.image.hwm_position)

    @property
    def last_sm_position(self):
        return self.image.last_sm_position

    @last_sm_position.setter
    def last_sm_position(self, int64_t value):
        self.image.last_sm_position = value

    @property
    def over_run_threshold(self):
        return self.image.over_run_threshold

    @over_run_threshold.setter
    def over_run_threshold(self, int64_t value):
        self.image.over_run_threshold = value

    @property
    def max_window_length(self):
        return self.image.max_window_length

    @max_window_length.setter
    def max_window_length(self, int64_t value):
        self.image.max_window_length = value

    @property
    def is_rejected(self):
        return bool(self.image.is_rejected)

    @is_rejected.setter
    def is_rejected(self, bint value):
        self.image.is_rejected = value

    @property
    def timestamp_offset(self):
        return self.image.timestamp_offset

    @timestamp_offset.setter
    def timestamp_offset(self, int64_t value):
        if value != -1 and not RESERVED_VALUE_OFFSET <= value <= _twin.MAX_TIMESTAMP_OFFSET:
            raise ValueError(f"a timestamp at {value} of a frame")
        self.image.timestamp_offset = value

    @property
    def time_of_last_packet_ns(self):
        return self.image.time_of_last_packet_ns

    @time_of_last_packet_ns.setter
    def time_of_last_packet_ns(self, int64_t value):
        self.image.time_of_last_packet_ns = value

    def time_heard(self, int transport_index):
        return self.image.heard[transport_index] if 0 <= transport_index < self.image.transport_count else NO_TIME

    def forget(self, int transport_index):
        if 0 <= transport_index < self.image.transport_count:
            self.image.heard[transport_index] = NO_TIME

    def hear(self, int transport_index, int64_t now_ns):
        cdef int64_t* larger
        cdef int i
        if not 0 <= transport_index < MAX_TRANSPORTS:
            raise IndexError(f"transport {transport_index}: 0..{MAX_TRANSPORTS - 1}")
        if transport_index >= self.image.transport_count:
            larger = <int64_t*>realloc(self.image.heard, (transport_index + 1) * sizeof(int64_t))
            if larger == NULL:
                raise MemoryError()
            for i in range(self.image.transport_count, transport_index + 1):
                larger[i] = NO_TIME
            self.image.heard = larger
            self.image.transport_count = transport_index + 1
        is_new = self.image.heard[transport_index] == NO_TIME
        self.image.heard[transport_index] = now_ns
        return is_new


cdef class ImageSessions:
    cdef table_t sessions
    cdef table_t streams
    cdef dict _kept
    cdef int32_t* _notes
    cdef int _capacity
    cdef batch_t batch
    cdef readonly list notes

    def __cinit__(self):
        memset(&self.sessions, 0, sizeof(table_t))
        memset(&self.streams, 0, sizeof(table_t))
        memset(&self.batch, 0, sizeof(batch_t))
        self._notes = NULL
        self._capacity = 0
        self._kept = {}
        self.notes = []

    def __dealloc__(self):
        free(self.sessions.slots)
        free(self.streams.slots)
        free(self._notes)

    @property
    def invalid(self):
        return self.batch.invalid

    @property
    def heartbeats(self):
        return self.batch.heartbeats

    @property
    def under_runs(self):
        return self.batch.under_runs

    @property
    def over_runs(self):
        return self.batch.over_runs

    def __len__(self):
        return self.sessions.count

    def add_stream(self, int32_t stream_id):
        put_slot(&self.streams, key_of(stream_id, 0), NULL)

    def remove_stream(self, int32_t stream_id):
        drop_slot(&self.streams, key_of(stream_id, 0))

    def put(self, int32_t stream_id, int32_t session_id, ImageRebuilder image):
        # Keep a reference first, so that the table never points to a freed image, even if it can't grow.
        cdef object before = self._kept.get((stream_id, session_id))
        self._kept[stream_id, session_id] = image
        put_slot(&self.sessions, key_of(stream_id, session_id), NULL if image is None else &image.image)

    def remove(self, int32_t stream_id, int32_t session_id):
        drop_slot(&self.sessions, key_of(stream_id, session_id))
        self._kept.pop((stream_id, session_id), None)

    def insert(self, Datagrams batch not None, int transport_index, int64_t now_ns, int64_t time_ns):
        cdef int64_t i
        if not 0 <= transport_index < MAX_TRANSPORTS:
            raise IndexError(f"transport {transport_index}: 0..{MAX_TRANSPORTS - 1}")
        self._make_room(batch.count)
        if self.batch.note_count:
            self.notes = []
        memset(&self.batch, 0, sizeof(batch_t))
        self.batch.notes = self._notes
        if batch.count > FEW:
            with nogil:
                self._take_all(batch, transport_index, now_ns, time_ns)
        else:
            self._take_all(batch, transport_index, now_ns, time_ns)
        if self.batch.note_count:
            self.notes = [(self._notes[2 * i], self._notes[2 * i + 1]) for i in range(self.batch.note_count)]
        return self.batch.received

    cdef int _make_room(self, int count) except -1:
        cdef int32_t* notes
        if count > self._capacity:
            notes = <int32_t*>realloc(self._notes, <size_t>count * 4 * sizeof(int32_t))
            if notes == NULL:
                raise MemoryError()
            self._notes = notes
            self._capacity = count
        return 0

    cdef void _take_all(self, Datagrams batch, int transport, int64_t now_ns, int64_t time_ns) noexcept nogil:
        cdef int index, kind
        cdef int64_t length
        cdef char* packet
        cdef batch_t* out = &self.batch
        cdef uint64_t key, last_key = 0
        cdef slot_t* slot
        cdef slot_t* last = NULL
        for index in range(batch.count):
            packet = batch.data + index * batch.slot_length
            length = batch.lengths_at[index]
            out.received += length
            if length <= MIN_HEADER_LENGTH or load_i32(packet) < 0 or packet[VERSION_OFFSET] != 0:
                out.invalid += 1
                continue
            kind = type_of(packet)
            if kind != TYPE_DATA and kind != TYPE_PADDING:
                if kind < 12 and CONTROL_TYPES >> kind & 1:
                    note(out, index, CONTROL)
                else:
                    out.invalid += 1
                continue
            if length & (HEADER - 1):
                out.invalid += 1
                continue
            key = key_of(load_i32(packet + DATA_HEADER_STREAM_ID), load_i32(packet + DATA_HEADER_SESSION_ID))
            if last != NULL and key == last_key:        # consecutive datagrams are often of one image
                slot = last
            else:
                slot = find(&self.sessions, key)
                last = slot
                last_key = key
            if slot == NULL:
                if (
                    not <uint8_t>packet[DATA_HEADER_FLAGS] & FLAG_EOS
                    and find(&self.streams, key & ~<uint64_t>0xFFFFFFFF) != NULL
                ):
                    note(out, index, NEW_SESSION)
            elif slot.image != NULL and not slot.image.is_rejected:
                insert_packet(slot.image, out, index, packet, length, transport, now_ns, time_ns)
