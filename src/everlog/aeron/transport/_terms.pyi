from everlog.aeron.transport.terms_twin import *
