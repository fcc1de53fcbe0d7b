from everlog.jlog.append_twin import Appender as Appender
from everlog.jlog.append_twin import BufferAppender as BufferAppender
