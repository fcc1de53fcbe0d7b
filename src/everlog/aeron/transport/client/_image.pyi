from everlog.aeron.transport.client.image_twin import ImageReader as ImageReader
