"""What a JLog journal's files hold: layouts, names, codecs."""
