# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Finding the images that need a poll, compiled. Twin: :mod:`everlog.aeron.transport.client.images.scan_twin`, which
documents each function."""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memmove

from everlog.kernel._atomics cimport acquire_i32, acquire_i64
from everlog.kernel._memory cimport Memory
from everlog.kernel._watch cimport Condition
from everlog.aeron.transport.memory._terms cimport LOG_META_DATA_END_OF_STREAM_POSITION, load_i64

from everlog.aeron.transport.client.log_shape import LogShape


cdef struct Entry:
    const char* position
    const char* terms[3]
    const char* end_of_stream
    int64_t mask            # of an offset in a term
    int shift
    bint is_marked


cdef struct Table:
    Entry* entries
    const char** frames     # at the positions of the last whole check; NULL where an image is due without a look
    Py_ssize_t count
    Py_ssize_t capacity
    bint notices_ends


cdef bint is_due(Table* table, Py_ssize_t index) noexcept nogil:
    cdef const Entry* entry = &table.entries[index]
    cdef const char* frame
    cdef int64_t position
    table.frames[index] = NULL
    if entry.is_marked:
        return True
    position = load_i64(entry.position)
    if position < 0 or position & 31:
        return True
    frame = entry.terms[(position >> entry.shift) % 3] + (position & entry.mask)
    table.frames[index] = frame
    if acquire_i32(frame) > 0:
        return True
    return table.notices_ends and position >= acquire_i64(entry.end_of_stream)


cdef bint is_quiet(void* state, bint is_quick) noexcept nogil:
    # A quick check touches one line of memory an image: positions do not move between two checks of a wait, and the end
    # of a stream can wait for the next whole one.
    cdef Table* table = <Table*>state
    cdef Py_ssize_t index
    if is_quick:
        for index in range(table.count):
            if table.frames[index] == NULL or acquire_i32(table.frames[index]) > 0:
                return False
    else:
        for index in range(table.count):
            if is_due(table, index):
                return False
    return True


cdef class ImageScan(Condition):
    cdef Table* _table
    cdef list _images, _tags, _memories  # in the order of the table's entries

    def __cinit__(self):
        self._table = <Table*>calloc(1, sizeof(Table))
        if self._table == NULL:
            raise MemoryError()
        self.check, self.state = is_quiet, self._table
        self._images, self._tags, self._memories = [], [], []

    def __init__(self, *, bint notices_ends):
        self._table.notices_ends = notices_ends

    def __dealloc__(self):
        if self._table != NULL:
            free(self._table.entries)
            free(<void*>self._table.frames)
            free(self._table)

    def __len__(self):
        return self._table.count

    def add(self, image, tag):
        cdef Entry entry = self._entry(image)
        cdef Table* table = self._table
        if table.count == table.capacity:
            self._grow(2 * table.capacity + 8)
        self._images.append(image)
        self._tags.append(tag)
        self._memories.append(None if image.log is None else (*image.log.terms, image.log.metadata, image.position_at))
        table.entries[table.count] = entry
        table.frames[table.count] = NULL
        table.count += 1
        image.scan = self

    cdef int _grow(self, Py_ssize_t capacity) except -1:
        cdef Table* table = self._table
        cdef Entry* entries = <Entry*>realloc(table.entries, capacity * sizeof(Entry))
        cdef const char** frames
        if entries == NULL:
            raise MemoryError()
        table.entries = entries
        frames = <const char**>realloc(<void*>table.frames, capacity * sizeof(char*))
        if frames == NULL:
            raise MemoryError()
        table.frames = frames
        table.capacity = capacity
        return 0

    cdef Entry _entry(self, image) except *:
        cdef Entry entry
        cdef Memory memory
        cdef int64_t at
        cdef int index
        log = image.log
        entry.is_marked = log is None
        if log is not None:
            shape = LogShape.of(log)
            entry.mask, entry.shift = shape.term_length - 1, shape.position_bits_to_shift
            memory, at = image.position_at
            memory.get_i64_acquire(at)
            entry.position = memory.data + at
            for index, term in enumerate(log.terms):
                memory = term
                entry.terms[index] = memory.data
            memory = log.metadata
            entry.end_of_stream = memory.data + LOG_META_DATA_END_OF_STREAM_POSITION
        return entry

    cdef Py_ssize_t _place(self, image):
        cdef Py_ssize_t index
        for index in range(self._table.count):
            if self._images[index] is image:
                return index
        return -1

    def discard(self, image):
        cdef Py_ssize_t index = self._place(image)
        cdef Table* table = self._table
        if index >= 0:
            table.count -= 1
            memmove(&table.entries[index], &table.entries[index + 1], (table.count - index) * sizeof(Entry))
            memmove(
                <void*>&table.frames[index], &table.frames[index + 1], (table.count - index) * sizeof(char*)
            )
            del self._images[index], self._tags[index], self._memories[index]

    def mark(self, image):
        cdef Py_ssize_t index = self._place(image)
        if index >= 0:
            self._table.entries[index].is_marked = True

    def due(self):
        cdef Table* table = self._table
        cdef Py_ssize_t index
        cdef list found = []
        for index in range(table.count):
            if is_due(table, index):
                found.append(self._tags[index])
        return found

    def is_quiet(self):
        return is_quiet(self._table, False)
