"""What the files of a store hold: layouts, names, records, protobuf messages, encryption."""
