from everlog.aeron.transport.client.conducting.pacemaker_twin import Pacemaker as Pacemaker
