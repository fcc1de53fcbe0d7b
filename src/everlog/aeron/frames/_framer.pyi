from everlog.aeron.frames.framing_twin import Framer as Framer
from everlog.aeron.frames.framing_twin import Tail as Tail
from everlog.aeron.frames.framing_twin import longest_of as longest_of
