from everlog.aeron.transport.client.header_twin import Header as Header
