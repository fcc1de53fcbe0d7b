import io.aeron.ExclusivePublication;
import io.aeron.Image;
import io.aeron.archive.Archive;
import io.aeron.archive.ArchiveThreadingMode;
import io.aeron.archive.client.AeronArchive;
import io.aeron.cluster.ClusterTool;
import io.aeron.cluster.ConsensusModule;
import io.aeron.cluster.client.AeronCluster;
import io.aeron.cluster.codecs.CloseReason;
import io.aeron.cluster.service.ClientSession;
import io.aeron.cluster.service.Cluster;
import io.aeron.cluster.service.ClusteredService;
import io.aeron.cluster.service.ClusteredServiceContainer;
import io.aeron.logbuffer.Header;
import java.io.File;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.ByteOrder;
import java.util.concurrent.TimeUnit;
import java.util.zip.CRC32;
import org.agrona.DirectBuffer;
import org.agrona.ErrorHandler;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * A cluster of one node of the real Aeron (archive, consensus module, a service that echoes) and its client, all on a
 * media driver that runs already. Arguments: the driver's folder, a folder for the node, how many messages, how many on
 * their way at a time, and five ports. Prints {@code echoed COUNT CRC}, {@code snapshot true|false}, and a line
 * {@code error ...} for each.
 */
public final class ClusterNodePeer
{
    private static final long WAIT_NS = TimeUnit.SECONDS.toNanos(40);
    private static final int LENGTH = 100;
    private static final ErrorHandler ERRORS = (failure) -> System.out.println("error " + failure);

    public static void main(final String[] arguments)
    {
        final String driver = arguments[0];
        final File folder = new File(arguments[1]);
        final int count = Integer.parseInt(arguments[2]);
        final int window = Integer.parseInt(arguments[3]);
        final String[] at = new String[5];
        for (int i = 0; i < at.length; i++)
        {
            at[i] = "localhost:" + arguments[4 + i];
        }
        final File node = new File(folder, "cluster");
        try (Archive archive = Archive.launch(archive(driver, folder, at[4]));
            ConsensusModule module = ConsensusModule.launch(new ConsensusModule.Context()
                .aeronDirectoryName(driver)
                .clusterDir(node)
                .clusterMemberId(0)
                .clusterMembers("0," + String.join(",", at))
                .ingressChannel("aeron:udp")
                .replicationChannel("aeron:udp?endpoint=localhost:0")
                .archiveContext(archiveClient())
                .errorHandler(ERRORS));
            ClusteredServiceContainer container = ClusteredServiceContainer.launch(
                new ClusteredServiceContainer.Context()
                    .aeronDirectoryName(driver)
                    .clusterDir(node)
                    .clusteredService(new Echo())
                    .archiveContext(archiveClient())
                    .errorHandler(ERRORS)))
        {
            exchange(driver, at[0], count, window);
            System.out.println("snapshot " + ClusterTool.snapshot(node, new PrintStream(OutputStream.nullOutputStream())));
        }
        System.exit(0); // a thread that still waits for something must not keep the process
    }

    private static Archive.Context archive(final String driver, final File folder, final String control)
    {
        return new Archive.Context()
            .aeronDirectoryName(driver)
            .archiveDir(new File(folder, "archive"))
            .controlChannel("aeron:udp?endpoint=" + control)
            .replicationChannel("aeron:udp?endpoint=localhost:0")
            .threadingMode(ArchiveThreadingMode.SHARED)
            .segmentFileLength(1 << 20)
            .errorHandler(ERRORS);
    }

    private static AeronArchive.Context archiveClient()
    {
        return new AeronArchive.Context().controlRequestChannel("aeron:ipc").controlResponseChannel("aeron:ipc");
    }

    private static void exchange(final String driver, final String ingress, final int count, final int window)
    {
        final int[] echoed = new int[1];
        final CRC32 crc = new CRC32();
        final byte[] payload = new byte[LENGTH];
        try (AeronCluster client = AeronCluster.connect(new AeronCluster.Context()
            .aeronDirectoryName(driver)
            .ingressChannel("aeron:udp?term-length=64k")
            .ingressEndpoints("0=" + ingress)
            .egressChannel("aeron:udp?endpoint=localhost:0")
            .egressListener((session, time, buffer, offset, length, header) ->
            {
                buffer.getBytes(offset, payload, 0, length);
                crc.update(payload, 0, length);
                echoed[0]++;
            })))
        {
            final UnsafeBuffer message = new UnsafeBuffer(new byte[LENGTH]);
            final long end = System.nanoTime() + WAIT_NS;
            int sent = 0;
            while (echoed[0] < count && System.nanoTime() < end)
            {
                message.putInt(0, sent, ByteOrder.LITTLE_ENDIAN);
                if (sent < count && sent - echoed[0] < window && client.offer(message, 0, LENGTH) > 0)
                {
                    sent++;
                }
                client.pollEgress();
            }
        }
        System.out.println("echoed " + echoed[0] + " " + crc.getValue());
    }

    /** Gives each message back. */
    private static final class Echo implements ClusteredService
    {
        private Cluster cluster;

        public void onStart(final Cluster cluster, final Image snapshot)
        {
            this.cluster = cluster;
        }

        public void onSessionMessage(
            final ClientSession session,
            final long timestamp,
            final DirectBuffer buffer,
            final int offset,
            final int length,
            final Header header)
        {
            while (session != null && session.offer(buffer, offset, length) < 0)
            {
                cluster.idleStrategy().idle();
            }
        }

        public void onSessionOpen(final ClientSession session, final long timestamp)
        {
        }

        public void onSessionClose(final ClientSession session, final long timestamp, final CloseReason reason)
        {
        }

        public void onTimerEvent(final long correlationId, final long timestamp)
        {
        }

        public void onTakeSnapshot(final ExclusivePublication publication)
        {
        }

        public void onRoleChange(final Cluster.Role role)
        {
        }

        public void onTerminate(final Cluster cluster)
        {
        }
    }
}
