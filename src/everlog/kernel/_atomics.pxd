"""Ordered and atomic access to shared memory, in C11's terms. Agrona's names map as follows: ``getVolatile`` is an
acquiring load here (which is what readers of Aeron's buffers need), ``putOrdered`` a releasing store; ``getAndAdd`` and
``compareAndSet`` are sequentially consistent. On x86-64 acquire and release cost nothing; on arm64 they are ldar and stlr,
which order what Agrona's volatile and ordered access orders. Reads and writes are never torn, as each address is a
multiple of the number's size."""

from libc.stdint cimport int32_t, int64_t

cdef extern from *:
    """
    #include <stdint.h>
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    #error "shared memory of Aeron's is little-endian"
    #endif
    static inline int32_t everlog_acquire_i32(const void* at) { return __atomic_load_n((const int32_t*)at, __ATOMIC_ACQUIRE); }
    static inline int64_t everlog_acquire_i64(const void* at) { return __atomic_load_n((const int64_t*)at, __ATOMIC_ACQUIRE); }
    static inline void everlog_release_i32(void* at, int32_t value) { __atomic_store_n((int32_t*)at, value, __ATOMIC_RELEASE); }
    static inline void everlog_release_i64(void* at, int64_t value) { __atomic_store_n((int64_t*)at, value, __ATOMIC_RELEASE); }
    static inline void everlog_volatile_i64(void* at, int64_t value) { __atomic_store_n((int64_t*)at, value, __ATOMIC_SEQ_CST); }
    static inline void everlog_volatile_i32(void* at, int32_t value) { __atomic_store_n((int32_t*)at, value, __ATOMIC_SEQ_CST); }
    static inline int64_t everlog_add_i64(void* at, int64_t delta) { return __atomic_fetch_add((int64_t*)at, delta, __ATOMIC_SEQ_CST); }
    static inline int32_t everlog_add_i32(void* at, int32_t delta) { return __atomic_fetch_add((int32_t*)at, delta, __ATOMIC_SEQ_CST); }
    static inline int everlog_swap_i64(void* at, int64_t expected, int64_t value) {
        return __atomic_compare_exchange_n((int64_t*)at, &expected, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
    static inline int everlog_swap_i32(void* at, int32_t expected, int32_t value) {
        return __atomic_compare_exchange_n((int32_t*)at, &expected, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }
    static inline void everlog_fence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
    static inline void everlog_acquire_fence(void) { __atomic_thread_fence(__ATOMIC_ACQUIRE); }
    static inline void everlog_release_fence(void) { __atomic_thread_fence(__ATOMIC_RELEASE); }
    #if defined(__x86_64__) || defined(__i386__)
    static inline void everlog_pause(void) { __builtin_ia32_pause(); }
    #elif defined(__aarch64__)
    static inline void everlog_pause(void) { __asm__ __volatile__("isb" ::: "memory"); }
    #else
    static inline void everlog_pause(void) { }
    #endif
    """
    int32_t acquire_i32 "everlog_acquire_i32"(const void* at) noexcept nogil
    int64_t acquire_i64 "everlog_acquire_i64"(const void* at) noexcept nogil
    void release_i32 "everlog_release_i32"(void* at, int32_t value) noexcept nogil
    void release_i64 "everlog_release_i64"(void* at, int64_t value) noexcept nogil
    void volatile_i64 "everlog_volatile_i64"(void* at, int64_t value) noexcept nogil
    void volatile_i32 "everlog_volatile_i32"(void* at, int32_t value) noexcept nogil
    int64_t add_i64 "everlog_add_i64"(void* at, int64_t delta) noexcept nogil
    int32_t add_i32 "everlog_add_i32"(void* at, int32_t delta) noexcept nogil
    bint swap_i64 "everlog_swap_i64"(void* at, int64_t expected, int64_t value) noexcept nogil
    bint swap_i32 "everlog_swap_i32"(void* at, int32_t expected, int32_t value) noexcept nogil
    void fence "everlog_fence"() noexcept nogil
    void acquire_fence "everlog_acquire_fence"() noexcept nogil
    void release_fence "everlog_release_fence"() noexcept nogil
    void pause "everlog_pause"() noexcept nogil
