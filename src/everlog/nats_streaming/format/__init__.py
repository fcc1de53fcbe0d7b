"""The formats of a store's files: layouts, names, records, protobuf messages."""
