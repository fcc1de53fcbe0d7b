from everlog.nats_streaming.reading.walk_twin import IndexWalker as IndexWalker
from everlog.nats_streaming.reading.walk_twin import RecordWalker as RecordWalker
