ctypedef bint (*quiet_check)(void* state, bint is_quick) noexcept nogil


cdef class Condition:
    """See ``watch_twin.py``. ``state`` stays valid, and is what ``check`` is called with, as long as this object lives;
    subclasses set both when they are made. A quick check follows a whole one, in the same wait, and may leave out what
    can wait until the next whole one."""
    cdef quiet_check check
    cdef void* state
