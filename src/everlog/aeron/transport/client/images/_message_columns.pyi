from everlog.aeron.transport.client.images.message_columns_twin import MessageColumns as MessageColumns
