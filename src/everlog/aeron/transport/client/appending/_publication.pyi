from everlog.aeron.transport.client.appending.claim_twin import BufferClaim as BufferClaim
from everlog.aeron.transport.client.appending.exclusive_twin import ExclusiveAppender as ExclusiveAppender
from everlog.aeron.transport.client.appending.publication_twin import ConcurrentAppender as ConcurrentAppender
