"""The file formats of a JLog journal: layouts, names, codecs."""
