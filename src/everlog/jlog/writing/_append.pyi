from everlog.jlog.writing.append_twin import Appender as Appender
from everlog.jlog.writing.append_twin import BufferAppender as BufferAppender
