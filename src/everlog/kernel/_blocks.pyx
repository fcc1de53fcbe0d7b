# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Decodes the fixed blocks of SBE messages into columns; :mod:`everlog.kernel.blocks_twin` documents each part.

Headers are read once. The leading payloads with identical headers are not decoded again; if that is all of them, as
usual, only the start of each block is kept. If all payloads are whole messages of one template, and no block is too
short or too old for a field, the field is copied by a loop without tests: its bytes are then known to be inside the
payload.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcpy, memset

from everlog.kernel._buffers cimport Buffer, new_buffer, view_of

from everlog.kernel.blocks_twin import check_pick

cdef enum:
    READY = 0
    SHORT = 1
    OTHER_SCHEMA = 2
    CUT = 3
    NO_TEMPLATE = -1

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #define EVERLOG_SAME(v) (v)
    #define EVERLOG_MOVE(NAME, IN, OUT, SWAP) \\
        static void NAME(const uint8_t* data, const int32_t* start, int64_t n, void* to) { \\
            OUT* out = (OUT*)to; \\
            for (int64_t i = 0; i < n; i++) { IN v; memcpy(&v, data + start[i], sizeof v); out[i] = (OUT)(IN)SWAP(v); } \\
        }
    EVERLOG_MOVE(everlog_move_b, int8_t, int16_t, EVERLOG_SAME)
    EVERLOG_MOVE(everlog_move_B, uint8_t, int16_t, EVERLOG_SAME)
    EVERLOG_MOVE(everlog_move_h, int16_t, int16_t, EVERLOG_SAME)
    EVERLOG_MOVE(everlog_move_H, uint16_t, int32_t, EVERLOG_SAME)
    EVERLOG_MOVE(everlog_move_i, uint32_t, uint32_t, EVERLOG_SAME)
    EVERLOG_MOVE(everlog_move_I, uint32_t, int64_t, EVERLOG_SAME)
    EVERLOG_MOVE(everlog_move_q, uint64_t, uint64_t, EVERLOG_SAME)
    EVERLOG_MOVE(everlog_swap_h, int16_t, int16_t, __builtin_bswap16)
    EVERLOG_MOVE(everlog_swap_H, uint16_t, int32_t, __builtin_bswap16)
    EVERLOG_MOVE(everlog_swap_i, uint32_t, uint32_t, __builtin_bswap32)
    EVERLOG_MOVE(everlog_swap_I, uint32_t, int64_t, __builtin_bswap32)
    EVERLOG_MOVE(everlog_swap_q, uint64_t, uint64_t, __builtin_bswap64)
    /* Counts the leading payloads that have the header of the first and a whole block after it; sets their blocks' starts. */
    static int64_t everlog_same_headers(const uint8_t* data, const int32_t* offsets, int64_t n, int64_t header, int64_t block, int32_t* starts) {
        const uint8_t* first = data + offsets[0];
        uint64_t head = 0, other;
        int64_t i;
        if (header >= 8) memcpy(&head, first, 8);
        for (i = 0; i < n; i++) {
            const uint8_t* at = data + offsets[i];
            if (offsets[i + 1] - offsets[i] < header + block) break;
            if (header >= 8) {
                memcpy(&other, at, 8);
                if (other != head || (header > 8 && memcmp(at + 8, first + 8, header - 8))) break;
            } else if (memcmp(at, first, header)) break;
            starts[i] = offsets[i] + (int32_t)header;
        }
        return i;
    }
    typedef void (*everlog_mover)(const uint8_t*, const int32_t*, int64_t, void*);
    static everlog_mover everlog_mover_of(int code, int swap) {
        switch (code) {
            case 'b': return everlog_move_b;
            case 'B': return everlog_move_B;
            case 'h': return swap ? everlog_swap_h : everlog_move_h;
            case 'H': return swap ? everlog_swap_H : everlog_move_H;
            case 'i': case 'f': return swap ? everlog_swap_i : everlog_move_i;
            case 'I': return swap ? everlog_swap_I : everlog_move_I;
            default: return swap ? everlog_swap_q : everlog_move_q;
        }
    }
    /* Sets the bits of the values that are not null, and counts the nulls. The comparison is a macro so that it is inlined. */
    #define EVERLOG_VALID(NAME, TYPE, IS_NULL) \\
        static int64_t NAME(const void* from, int64_t n, TYPE null, uint8_t* bits) { \\
            const TYPE* v = (const TYPE*)from; \\
            int64_t nulls = 0; \\
            (void)null; \\
            for (int64_t i = 0; i < n; i++) nulls += (IS_NULL); \\
            if (nulls == 0) return 0; \\
            memset(bits, 0, (n + 7) / 8); \\
            for (int64_t i = 0; i < n; i++) bits[i >> 3] |= (uint8_t)(!(IS_NULL)) << (i & 7); \\
            return nulls; \\
        }
    EVERLOG_VALID(everlog_valid_h, int16_t, v[i] == null)
    EVERLOG_VALID(everlog_valid_i, int32_t, v[i] == null)
    EVERLOG_VALID(everlog_valid_q, int64_t, v[i] == null)
    EVERLOG_VALID(everlog_valid_qs, int64_t, (v[i] == null) | (v[i] < 0))
    EVERLOG_VALID(everlog_valid_f, float, v[i] == null)
    EVERLOG_VALID(everlog_valid_d, double, v[i] == null)
    EVERLOG_VALID(everlog_valid_fn, float, v[i] != v[i])
    EVERLOG_VALID(everlog_valid_dn, double, v[i] != v[i])
    """
    ctypedef void (*everlog_mover)(const uint8_t*, const int32_t*, int64_t, void*) noexcept nogil
    everlog_mover everlog_mover_of(int, int) noexcept nogil
    int64_t everlog_same_headers(const uint8_t*, const int32_t*, int64_t, int64_t, int64_t, int32_t*) noexcept nogil
    int64_t everlog_valid_h(const void*, int64_t, int16_t, uint8_t*) noexcept nogil
    int64_t everlog_valid_i(const void*, int64_t, int32_t, uint8_t*) noexcept nogil
    int64_t everlog_valid_q(const void*, int64_t, int64_t, uint8_t*) noexcept nogil
    int64_t everlog_valid_qs(const void*, int64_t, int64_t, uint8_t*) noexcept nogil
    int64_t everlog_valid_f(const void*, int64_t, float, uint8_t*) noexcept nogil
    int64_t everlog_valid_d(const void*, int64_t, double, uint8_t*) noexcept nogil
    int64_t everlog_valid_fn(const void*, int64_t, float, uint8_t*) noexcept nogil
    int64_t everlog_valid_dn(const void*, int64_t, double, uint8_t*) noexcept nogil
    uint16_t everlog_bswap16 "__builtin_bswap16"(uint16_t) noexcept nogil
    uint32_t everlog_bswap32 "__builtin_bswap32"(uint32_t) noexcept nogil
    uint64_t everlog_bswap64 "__builtin_bswap64"(uint64_t) noexcept nogil


cdef struct Wanted:
    # A picked field of a template.
    int64_t template_id
    int64_t offset
    int64_t end
    int64_t since
    int code
    bint swap
    bint has_null
    bint null_is_nan
    int64_t null_bits
    double null_double


cdef Wanted wanted(int64_t template_id, field):
    cdef Wanted want
    want.template_id = template_id
    want.offset, want.end, want.since = field.offset, field.end, field.since
    want.code, want.swap = ord(field.code), field.big_endian
    null = field.null
    want.has_null = null is not None
    want.null_is_nan = want.has_null and null != null
    want.null_bits = 0
    want.null_double = 0
    if want.has_null and not want.null_is_nan:
        if field.code == "f" or field.code == "d":
            want.null_double = null
        else:
            want.null_bits = (int(null) + (1 << 63)) % (1 << 64) - (1 << 63)
    return want


cdef inline uint64_t load(const uint8_t* at, int code, bint swap) noexcept nogil:
    """A field's bits; those of a signed number are sign-extended."""
    cdef uint16_t two
    cdef uint32_t four
    cdef uint64_t eight
    if code == c'B':
        return at[0]
    if code == c'b':
        return <uint64_t><int64_t><signed char>at[0]
    if code == c'H' or code == c'h':
        memcpy(&two, at, 2)
        if swap:
            two = everlog_bswap16(two)
        return two if code == c'H' else <uint64_t><int64_t><int16_t>two
    if code == c'I' or code == c'i' or code == c'f':
        memcpy(&four, at, 4)
        if swap:
            four = everlog_bswap32(four)
        return <uint64_t><int64_t><int32_t>four if code == c'i' else four
    memcpy(&eight, at, 8)
    return everlog_bswap64(eight) if swap else eight


cdef inline bint is_null(uint64_t bits, const Wanted* want) noexcept nogil:
    cdef float single
    cdef double number
    cdef uint32_t low
    if not want.has_null:
        return False
    if want.code == c'f' or want.code == c'd':
        if want.code == c'f':
            low = <uint32_t>bits
            memcpy(&single, &low, 4)
            number = single
            return number != number if want.null_is_nan else single == <float>want.null_double
        memcpy(&number, &bits, 8)
        return number != number if want.null_is_nan else number == want.null_double
    return <int64_t>bits == want.null_bits


cdef class Blocks:
    cdef int64_t count
    cdef const uint8_t[::1] values
    cdef const uint8_t* data
    cdef Buffer starts_buffer, lengths_buffer, versions_buffer, templates_buffer, statuses_buffer
    cdef int32_t* starts        # of blocks; 0 without one
    cdef int64_t* lengths       # of blocks; -1 without one. This and the next three: NULL if all headers are the same
    cdef int64_t* versions
    cdef int64_t* templates
    cdef uint8_t* statuses
    cdef int64_t common_template    # of all payloads, if all are whole messages of the same one
    cdef int64_t least_version
    cdef int64_t least_length

    def __init__(self, const int32_t[::1] offsets, const uint8_t[::1] values, int64_t count, header, int64_t header_size,
                 int64_t schema_id):
        cdef int64_t i
        if count < 0 or offsets.shape[0] < count + 1 or offsets[0] < 0 or offsets[count] > values.shape[0]:
            raise ValueError("offsets lie outside the values")
        for i in range(count):
            if offsets[i] > offsets[i + 1]:
                raise ValueError("offsets lie outside the values")
        if any(f.code not in "BHI" or f.count != 1 or f.end > header_size for f in header) or len(header) != 4:
            raise ValueError("a header must have four unsigned fields of at most 32 bits")
        self.count, self.values = count, values
        self.data = &values[0] if values.shape[0] else NULL
        self.starts_buffer = new_buffer(4 * count)
        self.starts = <int32_t*>self.starts_buffer.data
        self.lengths = self.versions = self.templates = NULL
        self.statuses = NULL
        cdef Wanted parts[4]
        for i in range(4):
            parts[i] = wanted(0, header[i])
        self.common_template = NO_TEMPLATE
        self.least_version = self.least_length = <int64_t>1 << 62
        cdef int64_t same = 0
        with nogil:
            same = self.look_alike(&offsets[0], parts, header_size, schema_id)
        if same < count or count == 0:
            self.keep_each(same)
            with nogil:
                self.read_headers(same, &offsets[0], parts, header_size, schema_id)

    cdef int64_t look_alike(self, const int32_t* offsets, Wanted* parts, int64_t header_size, int64_t schema_id) noexcept nogil:
        """Count the leading payloads that have the same header, that of a message of the schema."""
        cdef const uint8_t* at
        cdef int64_t same, length
        if self.count == 0 or offsets[1] - offsets[0] < header_size:
            return 0
        at = self.data + offsets[0]
        if <int64_t>load(at + parts[2].offset, parts[2].code, parts[2].swap) != schema_id:
            return 0
        length = <int64_t>load(at + parts[0].offset, parts[0].code, parts[0].swap)
        same = everlog_same_headers(self.data, offsets, self.count, header_size, length, self.starts)
        if same:
            self.common_template = <int64_t>load(at + parts[1].offset, parts[1].code, parts[1].swap)
            self.least_version = <int64_t>load(at + parts[3].offset, parts[3].code, parts[3].swap)
            self.least_length = length
        return same

    cdef int keep_each(self, int64_t same) except -1:
        """Make the arrays that describe each payload, filled for the first ``same`` ones."""
        cdef int64_t i, count = self.count
        self.lengths_buffer, self.versions_buffer = new_buffer(8 * count), new_buffer(8 * count)
        self.templates_buffer, self.statuses_buffer = new_buffer(8 * count), new_buffer(count)
        self.lengths, self.versions = <int64_t*>self.lengths_buffer.data, <int64_t*>self.versions_buffer.data
        self.templates, self.statuses = <int64_t*>self.templates_buffer.data, <uint8_t*>self.statuses_buffer.data
        for i in range(same):
            self.lengths[i], self.versions[i] = self.least_length, self.least_version
            self.templates[i], self.statuses[i] = self.common_template, READY
        return 0

    cdef void read_headers(
        self, int64_t first, const int32_t* offsets, Wanted* parts, int64_t header_size, int64_t schema_id
    ) noexcept nogil:
        """Read each payload's header from ``first`` on; those before are known."""
        cdef int64_t i, length, template_id, version, room
        cdef const uint8_t* at
        cdef bint all_ready = self.count > 0
        for i in range(first, self.count):
            self.starts[i] = 0
            self.lengths[i] = -1
            self.versions[i] = 0
            self.templates[i] = NO_TEMPLATE
            room = offsets[i + 1] - offsets[i] - header_size
            if room < 0:
                self.statuses[i] = SHORT
                all_ready = False
                continue
            at = self.data + offsets[i]
            if <int64_t>load(at + parts[2].offset, parts[2].code, parts[2].swap) != schema_id:
                self.statuses[i] = OTHER_SCHEMA
                all_ready = False
                continue
            length = <int64_t>load(at + parts[0].offset, parts[0].code, parts[0].swap)
            template_id = <int64_t>load(at + parts[1].offset, parts[1].code, parts[1].swap)
            self.templates[i] = template_id
            if length > room:
                self.statuses[i] = CUT
                all_ready = False
                continue
            version = <int64_t>load(at + parts[3].offset, parts[3].code, parts[3].swap)
            self.statuses[i] = READY
            self.starts[i] = <int32_t>(offsets[i] + header_size)
            self.lengths[i] = length
            self.versions[i] = version
            self.least_version = min(self.least_version, version)
            self.least_length = min(self.least_length, length)
            if template_id != self.templates[0]:
                all_ready = False
        self.common_template = self.templates[0] if all_ready else NO_TEMPLATE

    @property
    def common(self):
        return self.common_template

    @property
    def templates(self):
        if self.templates == NULL:
            self.keep_each(self.count)
        return view_of(self.templates_buffer, 8 * self.count, "q")

    @property
    def statuses(self):
        if self.statuses == NULL:
            self.keep_each(self.count)
        return view_of(self.statuses_buffer, self.count, "B")

    def whole(self, int64_t template_id, int64_t length):
        cdef int64_t i, lacking = 0
        if self.common_template == template_id and template_id != NO_TEMPLATE and self.least_length >= length:
            return None
        if self.templates == NULL:
            self.keep_each(self.count)
        cdef Buffer out = new_buffer(self.count)
        for i in range(self.count):
            out.data[i] = self.templates[i] == template_id and self.statuses[i] == READY and self.lengths[i] >= length
            lacking += not out.data[i]
        return view_of(out, self.count, "B") if lacking else None

    cdef bint is_everywhere(self, const Wanted* want) noexcept nogil:
        return (
            want.template_id == self.common_template and self.common_template != NO_TEMPLATE
            and want.since <= self.least_version and want.end <= self.least_length
        )

    cdef inline bint is_here(self, const Wanted* want, int64_t i) noexcept nogil:
        if self.templates == NULL:
            return self.is_everywhere(want)
        return (
            self.templates[i] == want.template_id and want.end <= self.lengths[i] and want.since <= self.versions[i]
        )

    def numbers(self, picks, str code):
        cdef Wanted want
        cdef int width = {"h": 2, "i": 4, "f": 4}.get(code, 8)
        cdef int out_code = ord(code)
        cdef Buffer out = new_buffer(width * self.count)
        cdef Buffer bits = new_buffer((self.count + 7) // 8)
        cdef int64_t nulls = 0
        cdef bint is_own
        for _, field in picks:
            check_pick(field, code)
        if len(picks) == 1:
            want = wanted(picks[0][0], picks[0][1])
            # The fast loops write each number type into its narrowest column; wider ones take the general path.
            is_own = code == {"b": "h", "B": "h", "h": "h", "H": "i", "i": "i"}.get(picks[0][1].code, code)
            if is_own and self.is_everywhere(&want):
                with nogil:
                    nulls = self.move(&want, out_code, out.data, <uint8_t*>bits.data)
                validity = view_of(bits, (self.count + 7) // 8, "B") if nulls else None
                return view_of(out, width * self.count, code), None, validity, nulls
        memset(out.data, 0, width * self.count)
        memset(bits.data, 0, (self.count + 7) // 8)
        nulls = self.count
        for template_id, field in picks:
            want = wanted(template_id, field)
            with nogil:
                nulls -= self.pick(&want, out_code, out.data, <uint8_t*>bits.data)
        validity = view_of(bits, (self.count + 7) // 8, "B") if nulls else None
        return view_of(out, width * self.count, code), None, validity, nulls

    cdef int64_t move(self, const Wanted* want, int out_code, char* out, uint8_t* bits) noexcept nogil:
        """Decode a field that every payload has. Returns how many values are null."""
        cdef int64_t n = self.count
        everlog_mover_of(want.code, want.swap)(self.data + want.offset, self.starts, n, out)
        if out_code == c'q' and want.code == c'Q':
            return everlog_valid_qs(out, n, want.null_bits if want.has_null else -1, bits)
        if not want.has_null:
            return 0
        if out_code == c'h':
            return everlog_valid_h(out, n, <int16_t>want.null_bits, bits)
        if out_code == c'i':
            return everlog_valid_i(out, n, <int32_t>want.null_bits, bits)
        if out_code == c'f':
            if want.null_is_nan:
                return everlog_valid_fn(out, n, 0, bits)
            return everlog_valid_f(out, n, <float>want.null_double, bits)
        if out_code == c'd':
            if want.null_is_nan:
                return everlog_valid_dn(out, n, 0, bits)
            return everlog_valid_d(out, n, want.null_double, bits)
        return everlog_valid_q(out, n, want.null_bits, bits)

    cdef int64_t pick(self, const Wanted* want, int out_code, char* out, uint8_t* valid) noexcept nogil:
        """Decode a field of the payloads that have it. Returns how many values became valid."""
        cdef int64_t i, found = 0
        cdef uint64_t value
        for i in range(self.count):
            if not self.is_here(want, i):
                continue
            value = load(self.data + self.starts[i] + want.offset, want.code, want.swap)
            if is_null(value, want) or (out_code == c'q' and want.code == c'Q' and <int64_t>value < 0):
                continue
            if out_code == c'h':
                (<int16_t*>out)[i] = <int16_t>value
            elif out_code == c'i' or out_code == c'f':
                (<uint32_t*>out)[i] = <uint32_t>value
            else:
                (<uint64_t*>out)[i] = value
            if not valid[i >> 3] >> (i & 7) & 1:
                valid[i >> 3] |= 1 << (i & 7)
                found += 1
        return found

    def texts(self, picks, *, bint to_nul):
        cdef Buffer ends = new_buffer(4 * (self.count + 1))
        cdef Buffer bits = new_buffer((self.count + 7) // 8)
        cdef Buffer lengths = new_buffer(4 * self.count)
        cdef Buffer places = new_buffer(4 * self.count)
        cdef int32_t* end = <int32_t*>ends.data
        cdef int32_t* length = <int32_t*>lengths.data
        cdef int32_t* place = <int32_t*>places.data
        cdef Wanted want
        cdef int64_t i, used = 0, nulls = self.count
        memset(bits.data, 0, (self.count + 7) // 8)
        memset(lengths.data, 0, 4 * self.count)
        for template_id, field in picks:
            want = wanted(template_id, field)
            with nogil:
                nulls -= self.measure(&want, to_nul, <uint8_t*>bits.data, length, place)
        end[0] = 0
        for i in range(self.count):
            used += length[i]
            end[i + 1] = <int32_t>used
        cdef Buffer out = new_buffer(used)
        with nogil:
            for i in range(self.count):
                if length[i]:
                    memcpy(out.data + end[i], self.data + place[i], length[i])
        validity = view_of(bits, (self.count + 7) // 8, "B") if nulls else None
        return view_of(out, used, "B"), view_of(ends, 4 * (self.count + 1), "i"), validity, nulls

    cdef int64_t measure(
        self, const Wanted* want, bint to_nul, uint8_t* valid, int32_t* length, int32_t* place
    ) noexcept nogil:
        """Find the start and length of a field's bytes. Returns how many values became valid."""
        cdef int64_t i, found = 0, size = want.end - want.offset
        cdef const uint8_t* at
        cdef const void* nul
        for i in range(self.count):
            if not self.is_here(want, i):
                continue
            at = self.data + self.starts[i] + want.offset
            if want.has_null and size and at[0] == <uint8_t>want.null_bits:
                continue
            place[i] = self.starts[i] + <int32_t>want.offset
            length[i] = <int32_t>size
            if to_nul and size:
                nul = memchr(at, 0, size)
                if nul != NULL:
                    length[i] = <int32_t>(<const uint8_t*>nul - at)
            if not valid[i >> 3] >> (i & 7) & 1:
                valid[i >> 3] |= 1 << (i & 7)
                found += 1
        return found
