from everlog.aeron.transport.client.images.image_twin import ImageReader as ImageReader
