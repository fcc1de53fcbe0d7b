from everlog.aeron.transport.client.claim_twin import BufferClaim as BufferClaim
from everlog.aeron.transport.client.exclusive_twin import ExclusiveAppender as ExclusiveAppender
from everlog.aeron.transport.client.publication_twin import ConcurrentAppender as ConcurrentAppender
