from everlog.aeron.framing_twin import Framer as Framer
