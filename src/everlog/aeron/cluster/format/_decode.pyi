from everlog.aeron.cluster.format.decode_twin import Decoder as Decoder
