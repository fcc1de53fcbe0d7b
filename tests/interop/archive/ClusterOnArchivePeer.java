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
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.zip.CRC32;
import org.agrona.DirectBuffer;
import org.agrona.ErrorHandler;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * One life of a cluster node of the real Aeron (consensus module, a service with state) with a client, on a media driver
 * that runs already, and on an archive that serves there already (local control: IPC, stream 10) or on one of its own.
 * Arguments: the driver's folder, a folder for the node, {@code served} or {@code own}, the number of the first message,
 * how many before a snapshot, how many after it ({@code -1}: no snapshot, and none after it), and five ports.
 *
 * <p>The state is how many messages came and the digest of all of them; each message is answered with the state after it.
 * Prints {@code archive ID}, {@code loaded COUNT DIGEST} (the state in the snapshot, if there is one), {@code state
 * COUNT DIGEST} for the last answer, {@code snapshot true|false}, and {@code error ...} for each error.
 */
public final class ClusterOnArchivePeer
{
    private static final long WAIT_NS = TimeUnit.SECONDS.toNanos(30);
    private static final int LENGTH = 100;
    private static final int WINDOW = 64;
    private static final String SNAPSHOT_CHANNEL = "aeron:ipc?term-length=64k|alias=snapshot";
    private static final ErrorHandler ERRORS = (failure) -> System.out.println("error " + failure);

    public static void main(final String[] arguments) throws InterruptedException
    {
        final String driver = arguments[0];
        final File folder = new File(arguments[1]);
        final int first = Integer.parseInt(arguments[3]);
        final int before = Integer.parseInt(arguments[4]);
        final int after = Integer.parseInt(arguments[5]);
        final String[] at = new String[5];
        for (int i = 0; i < at.length; i++)
        {
            at[i] = "localhost:" + arguments[6 + i];
        }
        try (Archive archive = arguments[2].equals("own") ? Archive.launch(archive(driver, folder, at[4])) : null)
        {
            try (AeronArchive client = AeronArchive.connect(archiveClient().aeronDirectoryName(driver)))
            {
                System.out.println("archive " + client.archiveId());
            }
            live(driver, new File(folder, "cluster"), at, first, before, after);
        }
        System.exit(0); // a thread that still waits for something must not keep the process
    }

    private static void live(
        final String driver, final File node, final String[] at, final int first, final int before, final int after)
        throws InterruptedException
    {
        final Counting service = new Counting();
        try (ConsensusModule module = ConsensusModule.launch(new ConsensusModule.Context()
                .aeronDirectoryName(driver)
                .clusterDir(node)
                .clusterMemberId(0)
                .clusterMembers("0," + String.join(",", at))
                .ingressChannel("aeron:udp")
                .logChannel("aeron:udp?term-length=128k")
                .snapshotChannel(SNAPSHOT_CHANNEL)
                .replicationChannel("aeron:udp?endpoint=localhost:0")
                .archiveContext(archiveClient())
                .errorHandler(ERRORS));
            ClusteredServiceContainer container = ClusteredServiceContainer.launch(
                new ClusteredServiceContainer.Context()
                    .aeronDirectoryName(driver)
                    .clusterDir(node)
                    .snapshotChannel(SNAPSHOT_CHANNEL)
                    .clusteredService(service)
                    .archiveContext(archiveClient())
                    .errorHandler(ERRORS)))
        {
            exchange(driver, node, at[0], first, before, after);
            if (!service.clientLeft.await(20, TimeUnit.SECONDS))
            {
                System.out.println("error the log has no end of the client's session");
            }
        }
    }

    private static Archive.Context archive(final String driver, final File folder, final String control)
    {
        return new Archive.Context()
            .aeronDirectoryName(driver)
            .archiveDir(new File(folder, "archive"))
            .archiveId(77)
            .controlChannel("aeron:udp?endpoint=" + control)
            .replicationChannel("aeron:udp?endpoint=localhost:0")
            .threadingMode(ArchiveThreadingMode.SHARED)
            .segmentFileLength(128 << 10)
            .errorHandler(ERRORS);
    }

    private static AeronArchive.Context archiveClient()
    {
        return new AeronArchive.Context()
            .controlRequestChannel("aeron:ipc?term-length=64k")
            .controlResponseChannel("aeron:ipc?term-length=64k")
            .controlRequestStreamId(10);
    }

    private static void exchange(
        final String driver, final File node, final String ingress, final int first, final int before, final int after)
    {
        final long[] state = new long[2];
        final int[] answers = new int[1];
        try (AeronCluster client = AeronCluster.connect(new AeronCluster.Context()
            .aeronDirectoryName(driver)
            .ingressChannel("aeron:udp?term-length=64k")
            .ingressEndpoints("0=" + ingress)
            .egressChannel("aeron:udp?endpoint=localhost:0|term-length=64k")
            .egressListener((session, time, buffer, offset, length, header) ->
            {
                state[0] = buffer.getLong(offset, ByteOrder.LITTLE_ENDIAN);
                state[1] = buffer.getLong(offset + 8, ByteOrder.LITTLE_ENDIAN);
                answers[0]++;
            })))
        {
            send(client, answers, first, before);
            if (after >= 0)
            {
                System.out.println("snapshot " +
                    ClusterTool.snapshot(node, new PrintStream(OutputStream.nullOutputStream())));
                send(client, answers, first + before, after);
            }
        }
        System.out.println("state " + state[0] + " " + state[1]);
    }

    private static void send(final AeronCluster client, final int[] answers, final int first, final int count)
    {
        final UnsafeBuffer message = new UnsafeBuffer(new byte[LENGTH]);
        final long end = System.nanoTime() + WAIT_NS;
        final int expected = answers[0] + count;
        int left = count;
        while (answers[0] < expected && System.nanoTime() < end)
        {
            message.putInt(0, first + count - left, ByteOrder.LITTLE_ENDIAN);
            final int underWay = count - left - (answers[0] - (expected - count));
            if (left > 0 && underWay < WINDOW && client.offer(message, 0, LENGTH) > 0)
            {
                left--;
            }
            client.pollEgress();
        }
    }

    /** Counts and digests what came. */
    private static final class Counting implements ClusteredService
    {
        private final CountDownLatch clientLeft = new CountDownLatch(1);
        private final UnsafeBuffer answer = new UnsafeBuffer(new byte[16]);
        private boolean isReplay = true;
        private Cluster cluster;
        private long count;
        private long digest;

        public void onStart(final Cluster cluster, final Image snapshot)
        {
            this.cluster = cluster;
            if (snapshot != null)
            {
                final int[] found = new int[1];
                while (found[0] == 0)
                {
                    snapshot.poll((buffer, offset, length, header) ->
                    {
                        count = buffer.getLong(offset, ByteOrder.LITTLE_ENDIAN);
                        digest = buffer.getLong(offset + 8, ByteOrder.LITTLE_ENDIAN);
                        found[0]++;
                    }, 1);
                    cluster.idleStrategy().idle();
                }
                System.out.println("loaded " + count + " " + digest);
            }
        }

        public void onSessionMessage(
            final ClientSession session,
            final long timestamp,
            final DirectBuffer buffer,
            final int offset,
            final int length,
            final Header header)
        {
            final CRC32 crc = new CRC32();
            final byte[] bytes = new byte[8 + length];
            new UnsafeBuffer(bytes).putLong(0, digest, ByteOrder.LITTLE_ENDIAN);
            buffer.getBytes(offset, bytes, 8, length);
            crc.update(bytes);
            digest = crc.getValue();
            count++;
            writeState();
            while (session != null && session.offer(answer, 0, 16) < 0)
            {
                cluster.idleStrategy().idle();
            }
        }

        private void writeState()
        {
            answer.putLong(0, count, ByteOrder.LITTLE_ENDIAN);
            answer.putLong(8, digest, ByteOrder.LITTLE_ENDIAN);
        }

        public void onSessionOpen(final ClientSession session, final long timestamp)
        {
        }

        public void onSessionClose(final ClientSession session, final long timestamp, final CloseReason reason)
        {
            if (!isReplay)
            {
                clientLeft.countDown();
            }
        }

        public void onTimerEvent(final long correlationId, final long timestamp)
        {
        }

        public void onTakeSnapshot(final ExclusivePublication publication)
        {
            writeState();
            while (publication.offer(answer, 0, 16) < 0)
            {
                cluster.idleStrategy().idle();
            }
        }

        public void onRoleChange(final Cluster.Role role)
        {
            isReplay = role != Cluster.Role.LEADER; // what came before was replayed
        }

        public void onTerminate(final Cluster cluster)
        {
        }
    }
}
