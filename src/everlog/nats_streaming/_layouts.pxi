# Generated from everlog.nats_streaming's layouts by tools/generate_layouts.py. Do not edit.

cdef enum:
    FILE_VERSION_SIZE = 4
    FILE_VERSION_VERSION = 0
    RECORD_HEADER_SIZE = 8
    RECORD_HEADER_LENGTH = 0
    RECORD_HEADER_CRC = 4
    INDEX_RECORD_SIZE = 32
    INDEX_RECORD_SEQUENCE = 0
    INDEX_RECORD_OFFSET = 8
    INDEX_RECORD_TIMESTAMP = 16
    INDEX_RECORD_LENGTH = 24
    INDEX_RECORD_CRC = 28
