from everlog.aeron.transport.client.message_columns_twin import MessageColumns as MessageColumns
