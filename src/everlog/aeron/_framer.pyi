from everlog.aeron.framing_twin import Framer as Framer
from everlog.aeron.framing_twin import Tail as Tail
