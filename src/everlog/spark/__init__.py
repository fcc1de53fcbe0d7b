"""Spark over everlog's stores: the data source ``everlog``, a local session, verification of many stores, the demo."""
