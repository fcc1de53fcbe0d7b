from everlog.aeron.transport.client.images.header_twin import Header as Header
