from everlog.aeron.transport.client.images.scan_twin import ImageScan as ImageScan
