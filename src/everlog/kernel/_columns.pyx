# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Compiled column kernels; :mod:`everlog.kernel.columns_twin` documents each.

A walker fills the sink's block with up to ``BLOCK_ROWS`` rows (header pointer, computed numbers, byte spans; span 0 is
copied at once by ``put_span``) and calls ``flush``, which moves them column by column while the headers are still in
the first-level cache. Nothing here holds the GIL for a row.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from everlog.kernel._buffers cimport Buffer, grow_buffer, new_buffer, view_of

from everlog.kernel.sources import Bytes, FieldOf, Null, Value
from everlog.kernel.sources import MAX_SPANS as _MAX_SPANS, MAX_VALUES as _MAX_VALUES

assert _MAX_SPANS == MAX_SPANS and _MAX_VALUES == MAX_VALUES

cdef enum:
    KIND_FIELD = 0
    KIND_VALUE = 1
    KIND_BYTES = 2
    KIND_NULL = 3

cdef extern from *:
    """
    #include <string.h>
    #include <stdint.h>
    static inline uint16_t everlog_swap16(uint16_t v) { return __builtin_bswap16(v); }
    static inline uint32_t everlog_swap32(uint32_t v) { return __builtin_bswap32(v); }
    static inline uint64_t everlog_swap64(uint64_t v) { return __builtin_bswap64(v); }
    typedef int32_t everlog_i32x4 __attribute__((vector_size(16)));
    #if defined(__clang__)
    #define EVERLOG_PICK(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
    #else
    #define EVERLOG_PICK(a, b, i, j, k, l) __builtin_shuffle(a, b, (everlog_i32x4){i, j, k, l})
    #endif
    /* Reads four adjacent 32-bit fields of four headers at a time: a transposition in registers. */
    static void everlog_gather4(const uint8_t** frame, int n, int at, int32_t* a, int32_t* b, int32_t* c, int32_t* d) {
        everlog_i32x4 r0, r1, r2, r3, low01, low23, high01, high23;
        int i = 0;
        for (; i + 4 <= n; i += 4) {
            memcpy(&r0, frame[i] + at, 16);
            memcpy(&r1, frame[i + 1] + at, 16);
            memcpy(&r2, frame[i + 2] + at, 16);
            memcpy(&r3, frame[i + 3] + at, 16);
            low01 = EVERLOG_PICK(r0, r1, 0, 4, 1, 5);
            low23 = EVERLOG_PICK(r2, r3, 0, 4, 1, 5);
            high01 = EVERLOG_PICK(r0, r1, 2, 6, 3, 7);
            high23 = EVERLOG_PICK(r2, r3, 2, 6, 3, 7);
            r0 = EVERLOG_PICK(low01, low23, 0, 1, 4, 5);
            r1 = EVERLOG_PICK(low01, low23, 2, 3, 6, 7);
            r2 = EVERLOG_PICK(high01, high23, 0, 1, 4, 5);
            r3 = EVERLOG_PICK(high01, high23, 2, 3, 6, 7);
            memcpy(a + i, &r0, 16);
            memcpy(b + i, &r1, 16);
            memcpy(c + i, &r2, 16);
            memcpy(d + i, &r3, 16);
        }
        for (; i < n; i++) {
            memcpy(a + i, frame[i] + at, 4);
            memcpy(b + i, frame[i] + at + 4, 4);
            memcpy(c + i, frame[i] + at + 8, 4);
            memcpy(d + i, frame[i] + at + 12, 4);
        }
    }
    """
    uint16_t everlog_swap16(uint16_t) nogil
    uint32_t everlog_swap32(uint32_t) nogil
    uint64_t everlog_swap64(uint64_t) nogil
    void everlog_gather4(const uint8_t**, int, int, int32_t*, int32_t*, int32_t*, int32_t*) noexcept nogil


cdef class RowSink:

    def __cinit__(self, columns, int64_t max_rows, int64_t max_bytes):
        self.max_rows = max_rows
        self.max_bytes = max_bytes
        self._columns = list(columns)
        self.target_count = len(self._columns)
        self.targets = <Target*>calloc(max(self.target_count, 1), sizeof(Target))
        if self.targets == NULL:
            raise MemoryError()
        cdef int i
        for i in range(self.target_count):
            self._declare(i)
        self._find_quad()
        self.ready = False
        self.row_count = 0
        self.byte_count = 0
        self.block.count = 0
        self.block.byte_count = 0

    def __dealloc__(self):
        free(self.targets)

    def _declare(self, int i):
        name, code, source = self._columns[i]
        cdef Target* target = &self.targets[i]
        target.width = {"h": 2, "i": 4, "q": 8, "B": 0}[code]
        if isinstance(source, FieldOf):
            target.kind = KIND_FIELD
            target.source = source.field.offset
            target.source_code = ord(source.field.code)
            target.swap = source.field.big_endian
        elif isinstance(source, Value):
            target.kind = KIND_VALUE
            target.source = source.index
            if not 0 <= target.source < MAX_VALUES:
                raise ValueError(f"{name}: a computed number's index must be below {MAX_VALUES}, not {source.index}")
            if target.width == 8 and self.direct[target.source] == NULL:
                self.direct[target.source] = target
        elif isinstance(source, Bytes):
            target.kind = KIND_BYTES
            target.source = source.index
            self.has_bytes = True
            if target.source == 0:
                if self.payload != NULL:
                    raise ValueError(f"{name}: byte span 0 has a column already")
                self.payload = target
            if not 0 <= target.source < MAX_SPANS:
                raise ValueError(f"{name}: a byte span's index must be below {MAX_SPANS}, not {source.index}")
        elif isinstance(source, Null):
            target.kind = KIND_NULL
        else:
            raise TypeError(f"{name}: {source!r} is not a source")

    def _find_quad(self):
        """Find four adjacent 32-bit fields, which can be gathered together."""
        cdef int i
        at = {}
        for i in range(self.target_count):
            if self.targets[i].kind == KIND_FIELD and self.targets[i].width == 4 and not self.targets[i].swap:
                if self.targets[i].source_code == c'i' or self.targets[i].source_code == c'I':
                    at.setdefault(self.targets[i].source, i)
        for first in at:
            if all(first + 4 * k in at for k in range(4)):
                for i in range(4):
                    self.quad[i] = &self.targets[<int>at[first + 4 * i]]
                return

    cdef void point(self) noexcept nogil:
        """Set the destinations of the next block's computed numbers."""
        cdef int k
        for k in range(MAX_VALUES):
            if self.direct[k] != NULL and self.row_count + BLOCK_ROWS <= self.max_rows:
                self.block.value[k] = <int64_t*>self.direct[k].data + self.row_count
            else:
                self.block.value[k] = self.scratch[k]

    cdef int prepare(self) except -1:
        """Allocate the columns, if that was not done since the last ``take``."""
        cdef int i
        cdef Target* target
        cdef Buffer buffer
        if self.ready:
            return 0
        self._buffers = []
        self._offset_buffers = []
        for i in range(self.target_count):
            target = &self.targets[i]
            target.used = 0
            target.offsets = NULL
            target.data = NULL
            if target.kind == KIND_NULL:
                self._buffers.append(None)
                self._offset_buffers.append(None)
                continue
            if target.kind == KIND_BYTES:
                buffer = new_buffer(self.max_bytes + 2 * COPY_SLACK if target.source == 0 else 65536)
                self._offset_buffers.append(new_buffer(4 * (self.max_rows + 1)))
                target.offsets = <int32_t*>(<Buffer>self._offset_buffers[i]).data
                target.offsets[0] = 0
            else:
                buffer = new_buffer(target.width * self.max_rows)
                self._offset_buffers.append(None)
            self._buffers.append(buffer)
            target.data = buffer.data
            target.capacity = buffer.capacity
        self.ready = True
        self.point()
        return 0

    def reset(self):
        """Forget all rows, keep the buffers."""
        cdef int i
        for i in range(self.target_count):
            self.targets[i].used = 0
        self.row_count = 0
        self.byte_count = 0
        self.block.count = 0
        self.block.byte_count = 0
        if self.ready:
            self.point()

    def has_room(self, int64_t length):
        """Whether a row with ``length`` bytes in its spans fits."""
        if not self.has_bytes:
            return self.row_count < self.max_rows
        if self.row_count == 0:
            return length <= 0x7FFFFFFF
        return self.row_count < self.max_rows and self.byte_count + length <= self.max_bytes

    cdef int _grow(self, Target* target, int64_t needed) except -1 with gil:
        cdef Py_ssize_t i = target - self.targets
        cdef Buffer buffer = self._buffers[i]
        grow_buffer(buffer, target.used, needed)
        target.data = buffer.data
        target.capacity = buffer.capacity
        return 0

    cdef int extend_last(self, int span, const uint8_t* data, int64_t length) except -1 nogil:
        """Append a further piece to byte span ``span`` of the last row; for spans above 0 it must be flushed."""
        cdef int i
        cdef Target* target
        if not self.has_bytes:
            return 0
        for i in range(self.target_count):
            target = &self.targets[i]
            if target.kind != KIND_BYTES or target.source != span:
                continue
            if target.used + length + COPY_SLACK > target.capacity:
                self._grow(target, target.used + length + COPY_SLACK)
            everlog_copy_span(target.data + target.used, data, length)
            target.used += length
            target.offsets[self.row_count + (self.block.count if span == 0 else 0)] = <int32_t>target.used
        self.byte_count += length
        return 0

    cdef int flush(self, const uint8_t* readable_end) except -1 nogil:
        """Move the block's rows into the columns."""
        cdef Block* block = &self.block
        cdef int n = block.count
        cdef int i
        cdef Target* target
        if n == 0:
            return 0
        if self.quad[0] != NULL:
            everlog_gather4(
                block.frame, n, self.quad[0].source,
                <int32_t*>self.quad[0].data + self.row_count, <int32_t*>self.quad[1].data + self.row_count,
                <int32_t*>self.quad[2].data + self.row_count, <int32_t*>self.quad[3].data + self.row_count,
            )
        for i in range(self.target_count):
            target = &self.targets[i]
            if target.kind == KIND_FIELD:
                if not (
                    target == self.quad[0] or target == self.quad[1] or target == self.quad[2] or target == self.quad[3]
                ):
                    gather(target, block, self.row_count)
            elif target.kind == KIND_VALUE:
                if <char*>block.value[target.source] != target.data + 8 * self.row_count:
                    narrow(target, block, self.row_count)
            elif target.kind == KIND_BYTES and target.source != 0:
                copy_spans(self, target, block, readable_end)
        self.row_count += n
        if self.has_bytes:
            self.byte_count += block.byte_count
        block.count = 0
        block.byte_count = 0
        self.point()
        return 0

    def take(self):
        """Hand over the rows so far: their count, and for each column values, offsets, validity and null count."""
        cdef int i
        cdef int64_t count = self.row_count
        cdef Target* target
        self.prepare()
        out = {}
        for i in range(self.target_count):
            name, code, _ = self._columns[i]
            target = &self.targets[i]
            if target.kind == KIND_NULL:
                validity = memoryview(bytes((count + 7) // 8))
                if code == "B":
                    out[name] = memoryview(b""), memoryview(bytes(4 * (count + 1))).cast("i"), validity, count
                else:
                    out[name] = memoryview(bytes(target.width * count)).cast(code), None, validity, count
            elif target.kind == KIND_BYTES:
                values = view_of(self._buffers[i], target.used, "B")
                out[name] = values, view_of(self._offset_buffers[i], 4 * (count + 1), "i"), None, 0
            else:
                out[name] = view_of(self._buffers[i], target.width * count, code), None, None, 0
        self._buffers = []
        self._offset_buffers = []
        self.ready = False
        self.row_count = 0
        self.byte_count = 0
        return count, out


cdef void gather(Target* target, Block* block, int64_t row) noexcept nogil:
    """Move one fixed header field of each row."""
    cdef int i, n = block.count, at = target.source
    cdef int code = target.source_code
    cdef int width = target.width
    cdef int32_t* out32 = <int32_t*>target.data + row
    cdef int64_t* out64 = <int64_t*>target.data + row
    cdef int16_t* out16 = <int16_t*>target.data + row
    cdef int64_t wide
    if not target.swap:
        # The common pairs, as plain loops.
        if width == 4 and (code == c'i' or code == c'I'):
            for i in range(n):
                out32[i] = (<const int32_t*>(block.frame[i] + at))[0]
            return
        if width == 8 and (code == c'q' or code == c'Q'):
            for i in range(n):
                out64[i] = (<const int64_t*>(block.frame[i] + at))[0]
            return
        if width == 8 and code == c'I':
            for i in range(n):
                out64[i] = (<const uint32_t*>(block.frame[i] + at))[0]
            return
        if width == 2 and code == c'B':
            for i in range(n):
                out16[i] = block.frame[i][at]
            return
    for i in range(n):
        wide = load(block.frame[i] + at, code, target.swap)
        if width == 8:
            out64[i] = wide
        elif width == 4:
            out32[i] = <int32_t>wide
        else:
            out16[i] = <int16_t>wide


cdef inline int64_t load(const uint8_t* at, int code, bint swap) noexcept nogil:
    cdef uint16_t two
    cdef uint32_t four
    cdef uint64_t eight
    if code == c'B':
        return at[0]
    if code == c'b':
        return <signed char>at[0]
    if code == c'H' or code == c'h':
        memcpy(&two, at, 2)
        if swap:
            two = everlog_swap16(two)
        return two if code == c'H' else <int16_t>two
    if code == c'I' or code == c'i':
        memcpy(&four, at, 4)
        if swap:
            four = everlog_swap32(four)
        return four if code == c'I' else <int32_t>four
    memcpy(&eight, at, 8)
    if swap:
        eight = everlog_swap64(eight)
    return <int64_t>eight


cdef void narrow(Target* target, Block* block, int64_t row) noexcept nogil:
    """Move one computed number of each row."""
    cdef int i, n = block.count
    cdef int64_t* source = block.value[target.source]
    if target.width == 8:
        memcpy(<int64_t*>target.data + row, source, n * 8)
    elif target.width == 4:
        for i in range(n):
            (<int32_t*>target.data + row)[i] = <int32_t>source[i]
    else:
        for i in range(n):
            (<int16_t*>target.data + row)[i] = <int16_t>source[i]


cdef int copy_spans(RowSink sink, Target* target, Block* block, const uint8_t* readable_end) except -1 nogil:
    """Copy one byte span of each row."""
    cdef int i, n = block.count
    cdef int span = target.source
    cdef int64_t length, used = target.used, total = 0
    cdef const uint8_t* source
    cdef int32_t* offsets = target.offsets + sink.row_count + 1
    cdef char* data
    for i in range(n):
        total += block.span_length[span][i]
    if used + total + COPY_SLACK > target.capacity:
        sink._grow(target, used + total + COPY_SLACK)
    data = target.data
    for i in range(n):
        length = block.span_length[span][i]
        source = block.span[span][i]
        if length <= COPY_SLACK and source + COPY_SLACK <= readable_end:
            everlog_copy_short(data + used, source, length)
        else:
            everlog_copy_span(data + used, source, length)
        used += length
        offsets[i] = <int32_t>used
    target.used = used
    return 0
