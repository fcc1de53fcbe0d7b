from everlog.aeron.transport.client.header_twin import Header as Header
from everlog.aeron.transport.client.image_twin import ImageReader as ImageReader
from everlog.aeron.transport.client.image_twin import MessageColumns as MessageColumns
