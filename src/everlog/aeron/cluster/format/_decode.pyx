# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Compiled decoder; :mod:`everlog.aeron.cluster.format.decode_twin` says what it does and why."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from everlog.kernel._buffers cimport Buffer, grow_buffer, new_buffer, view_of
from everlog.kernel._decimals cimport put_decimal

import json

from everlog.aeron.cluster.format import decode_twin as _twin
from everlog.aeron.cluster.format import messages as _messages
from everlog.aeron.cluster.protocol import codec as _codec
from everlog.fields import Enumeration

include "everlog/aeron/_layouts.pxi"

cdef extern from *:
    """
    #include <string.h>
    #include <stdint.h>
    static inline uint16_t everlog_at16(const void* at) {
        uint16_t v; memcpy(&v, at, 2);
    #if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        v = __builtin_bswap16(v);
    #endif
        return v; }
    static inline uint32_t everlog_at32(const void* at) {
        uint32_t v; memcpy(&v, at, 4);
    #if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        v = __builtin_bswap32(v);
    #endif
        return v; }
    static inline uint64_t everlog_at64(const void* at) {
        uint64_t v; memcpy(&v, at, 8);
    #if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        v = __builtin_bswap64(v);
    #endif
        return v; }
    """
    uint16_t everlog_at16(const void*) nogil
    uint32_t everlog_at32(const void*) nogil
    uint64_t everlog_at64(const void*) nogil

cdef enum:
    HEADER = SBE_MESSAGE_HEADER_SIZE
    SCHEMA_ID = 111
    SESSION_MESSAGE = 0
    SESSION_TEMPLATE = 1
    MAX_TEMPLATES = 256
    MAX_KINDS = 24
    MAX_FIELDS = 12
    MAX_LABELS = 8
    MAX_NUMBER = 24
    COLUMN_TIME = 0
    COLUMN_TERM = 1
    COLUMN_SESSION = 2
    NUMBERS = 3

assert SCHEMA_ID == _codec.SCHEMA_ID and len(_messages.KINDS) <= MAX_KINDS
assert _messages.SESSION_MESSAGE.template_id == SESSION_TEMPLATE and _messages.KINDS[SESSION_MESSAGE] == "session-message"

_NUMBER_COLUMNS = {"timestamp_ns": COLUMN_TIME, "leadership_term_id": COLUMN_TERM, "cluster_session_id": COLUMN_SESSION}
_SOURCES = {"timestamp": COLUMN_TIME, "leadership_term_id": COLUMN_TERM, "cluster_session_id": COLUMN_SESSION}


cdef struct FieldText:
    int at                  # in the block
    int size
    bint has_null
    int64_t null
    const char* prefix      # such as ', "flags": '
    int prefix_length
    int label_count
    int64_t label_value[MAX_LABELS]
    const char* label[MAX_LABELS]
    int label_length[MAX_LABELS]


cdef struct Kind:
    int at[NUMBERS]         # of the columns' fields in the block, -1 for none
    bint has_texts
    int field_count
    int most                # bytes of JSON
    FieldText field[MAX_FIELDS]


cdef class Decoder:
    """Decodes messages into columns."""

    cdef Kind kinds[MAX_KINDS]
    cdef int kind_of[MAX_TEMPLATES]
    cdef const char* name[MAX_KINDS]
    cdef int name_length[MAX_KINDS]
    cdef int unknown, extension, state, bad
    cdef int64_t unit_ns, most_time
    cdef bint wants_payload, wants_kind, wants_length, wants_fields
    cdef bint wants[NUMBERS]
    cdef list _kept         # the bytes that pointers above lead to
    cdef readonly object names
    cdef readonly list undecodable

    def __cinit__(self, names, int64_t unit_ns):
        self.names = frozenset(names)
        self.unit_ns = unit_ns
        self.most_time = _twin.MAX_INT64 // unit_ns
        self.undecodable = []
        self._kept = []
        self.wants_payload = "payload" in self.names
        self.wants_kind = "kind" in self.names
        self.wants_length = "length" in self.names
        self.wants_fields = "fields" in self.names
        for text, column in _NUMBER_COLUMNS.items():
            self.wants[<int>column] = text in self.names
        cdef int i
        for i in range(MAX_TEMPLATES):
            self.kind_of[i] = -1
        for number, text in enumerate(_messages.KINDS):
            data = self._keep(text.encode())
            self.name[<int>number] = data
            self.name_length[<int>number] = len(data)
        self.unknown, self.extension, self.state = _messages.UNKNOWN, _messages.EXTENSION, _messages.STATE
        self.bad = _messages.UNDECODABLE
        for number, item in enumerate(_messages.TYPES):
            self._declare(number, item)

    cdef bytes _keep(self, bytes data):
        self._kept.append(data)
        return data

    cdef _declare(self, int number, item):
        cdef Kind* kind = &self.kinds[number]
        cdef FieldText* text
        self.kind_of[<int>item.template_id] = number
        kind.at[COLUMN_TIME] = kind.at[COLUMN_TERM] = kind.at[COLUMN_SESSION] = -1
        kind.has_texts = item.has_texts
        kind.field_count = 0
        kind.most = 4
        for field in item.block.members:
            if field.name in _SOURCES:
                kind.at[<int>_SOURCES[field.name]] = field.offset
                continue
            if field.code not in "iq" or kind.field_count == MAX_FIELDS:
                raise ValueError(f"{item.block.name}.{field.name}: not known to the compiled decoder")
            text = &kind.field[kind.field_count]
            prefix = self._keep(((", " if kind.field_count else "{") + json.dumps(field.name) + ": ").encode())
            text.prefix, text.prefix_length = prefix, len(prefix)
            text.at, text.size = field.offset, field.size
            text.has_null = field.null is not None
            text.null = field.null or 0
            text.label_count = 0
            kind.most += len(prefix) + MAX_NUMBER
            if isinstance(field.labels, Enumeration):
                for value, label in field.labels.names.items():
                    if text.label_count == MAX_LABELS:
                        raise ValueError(f"{item.block.name}.{field.name}: too many names")
                    data = self._keep(json.dumps(label).encode())
                    text.label_value[text.label_count] = value
                    text.label[text.label_count] = data
                    text.label_length[text.label_count] = len(data)
                    text.label_count += 1
                    kind.most += len(data)
            kind.field_count += 1

    def decode(self, const int32_t[::1] offsets, const uint8_t[::1] values, int64_t count, int64_t state_row):
        """Decode a batch of ``count`` messages; the rows from ``state_row`` on are a service's own state."""
        cdef Columns columns = Columns.__new__(Columns)
        cdef int64_t total = offsets[count] - offsets[0] if count else 0
        columns.make(self, count, total)
        cdef const uint8_t* data = &values[0] if values.shape[0] else NULL
        cdef int64_t row, start, length
        cdef int number
        self.undecodable = []
        with nogil:
            for row in range(count):
                start = offsets[row]
                length = offsets[row + 1] - start
                number = self.state if row >= state_row else self._kind(data + start, length)
                if number < self.unknown:
                    number = self._known(columns, row, number, data + start, length)
                else:
                    self._other(columns, row, data + start, length)
                if number == self.bad:
                    with gil:
                        self.undecodable.append(row)
                if columns.kind != NULL:
                    columns.kind_used = put(
                        columns.kind, columns.kind_ends, row, columns.kind_used, self.name[number], self.name_length[number]
                    )
        return columns.take(self, count)

    cdef int _kind(self, const uint8_t* data, int64_t length) noexcept nogil:
        cdef int template
        if length < HEADER:
            return self.bad
        if everlog_at16(data + SBE_MESSAGE_HEADER_SCHEMA_ID) != SCHEMA_ID:
            return self.extension
        template = everlog_at16(data + SBE_MESSAGE_HEADER_TEMPLATE_ID)
        if template >= MAX_TEMPLATES or self.kind_of[template] < 0:
            return self.unknown
        return self.kind_of[template]

    cdef int _known(self, Columns columns, int64_t row, int number, const uint8_t* data, int64_t length) except -1 nogil:
        """A message of the cluster's schema; the kind that it turns out to be."""
        cdef int64_t block = everlog_at16(data + SBE_MESSAGE_HEADER_BLOCK_LENGTH)
        cdef Kind* kind = &self.kinds[number]
        cdef const uint8_t* body = data + HEADER
        cdef int64_t value
        cdef int column, at
        if HEADER + block > length:
            self._other(columns, row, data, length)
            return self.bad
        if kind.has_texts and not self._texts(columns, row, number, data, length):
            self._other(columns, row, data, length)
            return self.bad
        for column in range(NUMBERS):
            if columns.number[column] == NULL:
                continue
            at = kind.at[column]
            if at < 0 or at + 8 > block:
                columns.set_null(column, row)
                continue
            value = <int64_t>everlog_at64(body + at)
            if column == COLUMN_TIME:
                if value > self.most_time or value < -self.most_time:
                    columns.set_null(column, row)
                    continue
                value *= self.unit_ns
            columns.number[column][row] = value
        if number == SESSION_MESSAGE:
            data += HEADER + block
            length -= HEADER + block
            if columns.fields != NULL:
                columns.set_null_fields(row)
        elif columns.fields != NULL and not kind.has_texts:
            self._json(columns, row, kind, body, block)
        columns.put_payload(row, data, length)
        return number

    cdef int _other(self, Columns columns, int64_t row, const uint8_t* data, int64_t length) except -1 nogil:
        cdef int column
        for column in range(NUMBERS):
            if columns.number[column] != NULL:
                columns.set_null(column, row)
        if columns.fields != NULL:
            columns.set_null_fields(row)
        columns.put_payload(row, data, length)
        return 0

    cdef int _json(self, Columns columns, int64_t row, Kind* kind, const uint8_t* body, int64_t block) except -1 nogil:
        """The fields of a message that has numbers only."""
        cdef int i, k
        cdef FieldText* text
        cdef int64_t value
        cdef char* out = columns.room_for_fields(kind.most)
        cdef char* at = out
        if kind.field_count == 0:
            at[0] = c'{'
            at += 1
        for i in range(kind.field_count):
            text = &kind.field[i]
            memcpy(at, text.prefix, text.prefix_length)
            at += text.prefix_length
            if text.at + text.size > block:
                at = put_null(at)
                continue
            if text.size == 8:
                value = <int64_t>everlog_at64(body + text.at)
            else:
                value = <int32_t>everlog_at32(body + text.at)
            for k in range(text.label_count):
                if text.label_value[k] == value:
                    memcpy(at, text.label[k], text.label_length[k])
                    at += text.label_length[k]
                    break
            else:
                at = put_null(at) if text.has_null and value == text.null else put_number(at, value)
        at[0] = c'}'
        columns.fields_used += at + 1 - out
        columns.fields_ends[row + 1] = <int32_t>columns.fields_used
        return 0

    cdef bint _texts(
        self, Columns columns, int64_t row, int number, const uint8_t* data, int64_t length
    ) except -1 with gil:
        """The fields of a message with data of variable length, by the twin; false when it contradicts itself."""
        cdef bytes found
        cdef char* out
        made = _twin.fields_text(_messages.TYPES[number], (<const char*>data)[:length])
        if made is None:
            return False
        if columns.fields != NULL:
            found = made
            out = columns.room_for_fields(len(found))
            memcpy(out, <const char*>found, len(found))
            columns.fields_used += len(found)
            columns.fields_ends[row + 1] = <int32_t>columns.fields_used
        return True


cdef inline char* put_null(char* at) noexcept nogil:
    memcpy(at, b"null", 4)
    return at + 4


cdef inline char* put_number(char* at, int64_t number) noexcept nogil:
    cdef uint64_t value = <uint64_t>number
    if number < 0:
        at[0] = c'-'
        at += 1
        value = 0 - value
    return at + put_decimal(value, at)


cdef inline int64_t put(
    char* out, int32_t* ends, int64_t row, int64_t used, const char* data, int64_t length
) noexcept nogil:
    """A short text after the others."""
    memcpy(out + used, data, length)
    used += length
    ends[row + 1] = <int32_t>used
    return used


cdef class Columns:
    """The buffers of one batch."""

    cdef int64_t* number[NUMBERS]
    cdef uint8_t* valid[NUMBERS]
    cdef int64_t nulls[NUMBERS]
    cdef int64_t* length
    cdef char* payload
    cdef int32_t* payload_ends
    cdef int64_t payload_used
    cdef char* kind
    cdef int32_t* kind_ends
    cdef int64_t kind_used
    cdef char* fields
    cdef int32_t* fields_ends
    cdef uint8_t* fields_valid
    cdef int64_t fields_used, fields_nulls
    cdef Buffer fields_buffer
    cdef dict buffers

    cdef char* _buffer(self, name, int64_t size):
        cdef Buffer buffer = new_buffer(size)
        self.buffers[name] = buffer
        return buffer.data

    cdef make(self, Decoder decoder, int64_t count, int64_t total):
        cdef int column
        cdef int64_t bits = (count + 7) // 8
        self.buffers = {}
        for name, column in _NUMBER_COLUMNS.items():
            if decoder.wants[column]:
                self.number[column] = <int64_t*>self._buffer(name, 8 * count)
                self.valid[column] = <uint8_t*>self._buffer(name + " validity", bits)
                memset(self.valid[column], 0xFF, bits)
        if decoder.wants_length:
            self.length = <int64_t*>self._buffer("length", 8 * count)
        if decoder.wants_payload:
            self.payload = self._buffer("payload", total)
            self.payload_ends = <int32_t*>self._buffer("payload offsets", 4 * (count + 1))
        if decoder.wants_kind:
            self.kind = self._buffer("kind", 32 * count)
            self.kind_ends = <int32_t*>self._buffer("kind offsets", 4 * (count + 1))
        if decoder.wants_fields:
            self.fields = self._buffer("fields", 64 * count + 64)
            self.fields_buffer = self.buffers["fields"]
            self.fields_ends = <int32_t*>self._buffer("fields offsets", 4 * (count + 1))
            self.fields_valid = <uint8_t*>self._buffer("fields validity", bits)
            memset(self.fields_valid, 0xFF, bits)

    cdef void set_null(self, int column, int64_t row) noexcept nogil:
        self.number[column][row] = 0
        self.valid[column][row >> 3] &= ~<uint8_t>(1 << (row & 7))
        self.nulls[column] += 1

    cdef void set_null_fields(self, int64_t row) noexcept nogil:
        self.fields_ends[row + 1] = <int32_t>self.fields_used
        self.fields_valid[row >> 3] &= ~<uint8_t>(1 << (row & 7))
        self.fields_nulls += 1

    cdef void put_payload(self, int64_t row, const uint8_t* data, int64_t length) noexcept nogil:
        if self.length != NULL:
            self.length[row] = length
        if self.payload != NULL:
            self.payload_used = put(self.payload, self.payload_ends, row, self.payload_used, <const char*>data, length)

    cdef char* room_for_fields(self, int64_t length) except NULL nogil:
        if self.fields_used + length > self.fields_buffer.capacity:
            with gil:
                grow_buffer(self.fields_buffer, self.fields_used, self.fields_used + length)
                self.fields = self.fields_buffer.data
        return self.fields + self.fields_used

    cdef dict take(self, Decoder decoder, int64_t count):
        """The columns as the twin gives them."""
        cdef int column
        cdef int64_t bits = (count + 7) // 8
        out = {}
        for name, column in _NUMBER_COLUMNS.items():
            if decoder.wants[column]:
                validity = self._bits(name + " validity", self.valid[column], count) if self.nulls[column] else None
                out[name] = view_of(self.buffers[name], 8 * count, "q"), None, validity, self.nulls[column]
        if decoder.wants_length:
            out["length"] = view_of(self.buffers["length"], 8 * count, "q"), None, None, 0
        if decoder.wants_payload:
            out["payload"] = self._spans("payload", self.payload_used, count, None, 0)
        if decoder.wants_kind:
            out["kind"] = self._spans("kind", self.kind_used, count, None, 0)
        if decoder.wants_fields:
            validity = self._bits("fields validity", self.fields_valid, count) if self.fields_nulls else None
            out["fields"] = self._spans("fields", self.fields_used, count, validity, self.fields_nulls)
        return out

    cdef _bits(self, name, uint8_t* bits, int64_t count):
        if count & 7:
            bits[count >> 3] &= <uint8_t>((1 << (count & 7)) - 1)
        return view_of(self.buffers[name], (count + 7) // 8, "B")

    cdef _spans(self, name, int64_t used, int64_t count, validity, int64_t nulls):
        ends = view_of(self.buffers[name + " offsets"], 4 * (count + 1), "i")
        return view_of(self.buffers[name], used, "B"), ends, validity, nulls
