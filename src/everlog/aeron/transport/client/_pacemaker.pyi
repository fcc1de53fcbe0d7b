from everlog.aeron.transport.client.pacemaker_twin import Pacemaker as Pacemaker
