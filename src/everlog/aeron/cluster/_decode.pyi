from everlog.aeron.cluster.decode_twin import Decoder as Decoder
