from everlog.kernel.columns_twin import RowSink as RowSink
