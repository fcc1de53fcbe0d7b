import io.aeron.Aeron;
import io.aeron.ChannelUri;
import io.aeron.ExclusivePublication;
import io.aeron.Image;
import io.aeron.Subscription;
import io.aeron.archive.Archive;
import io.aeron.archive.ArchiveThreadingMode;
import io.aeron.archive.ArchivingMediaDriver;
import io.aeron.archive.client.AeronArchive;
import io.aeron.archive.client.RecordingDescriptorConsumer;
import io.aeron.archive.codecs.RecordingSignal;
import io.aeron.archive.codecs.SourceLocation;
import io.aeron.archive.status.RecordingPos;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import io.aeron.logbuffer.FragmentHandler;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.function.LongSupplier;
import org.agrona.CloseHelper;
import org.agrona.concurrent.IdleStrategy;
import org.agrona.concurrent.UnsafeBuffer;
import org.agrona.concurrent.YieldingIdleStrategy;
import org.agrona.concurrent.status.CountersReader;

/**
 * Times the real Aeron Archive in one process with its media driver: recording and replaying through IPC.
 *
 * <p>Arguments: the archive's folder, the driver's folder, the driver's and the archive's threading mode, term bytes,
 * segment bytes. On stdin come {@code record PAYLOAD_BYTES MESSAGES} and {@code replay PAYLOAD_BYTES MESSAGES}; each is
 * answered with {@code ok POSITION_BYTES MESSAGES SECONDS} or {@code error ...}. What {@code record} made is deleted
 * after it; what {@code replay} needs is recorded before it, outside the time, and kept for the next one alike.
 * {@code start COUNT}, {@code first COUNT} and {@code list COUNT} are answered with the median seconds of a
 * start-recording until its answer, of a replay until its first message, and of a list of 1,000 recordings; so is
 * {@code one COUNT RECORDINGS}, of lists of one recording each, among the later half of so many. {@code udp} is {@code record}
 * over UDP. {@code open COUNT} begins that many recordings, {@code pace RATE SECONDS} publishes that many messages a
 * second to all of them together, in turn; {@code connect COUNT} opens that many more control sessions, which stay.
 * With the driver's threading mode EXTERNAL it is a client of an archive that serves already by the driver in that
 * folder.
 */
public final class ArchiveBench
{
    private static final String EXTERNAL = "EXTERNAL";
    private static final int CONTROL_STREAM = 10;
    private static final String CONTROL = "aeron:ipc?term-length=64k";
    private static final String CHANNEL = "aeron:ipc";
    private static final int STREAM = 1_001;
    private static final int REPLAY_STREAM = 1_002;
    private static final int IDLE_STREAM = 1_003;
    private static final int KEPT_BYTES = 1024;
    private static final long KEPT_MESSAGES = 10_000;
    private static final int LISTED = 1_000;
    private static final String MANY_CHANNEL = "aeron:ipc?term-length=1m";
    private static final int FIRST_OF_MANY = 10_000;
    private static final int PACED_BYTES = 1024;
    private static final long PACE_NS = TimeUnit.MILLISECONDS.toNanos(1);
    private static final String SMALL_CHANNEL = "aeron:ipc?term-length=64k";
    private static final RecordingDescriptorConsumer NO_DESCRIPTOR =
        (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p) -> {};
    private static final int FRAGMENTS_OF_A_POLL = 256;
    private static final long WAIT_NS = TimeUnit.SECONDS.toNanos(120);
    private static final long NONE = -1;

    /** A recording, and what it took to make it. */
    private record Run(long recordingId, long positionBytes, long messages, long nanoseconds)
    {
        String line()
        {
            return String.format(Locale.ROOT, "ok %d %d %.9f", positionBytes, messages, nanoseconds / 1e9);
        }
    }

    private final ArchivingMediaDriver driver;
    private final Aeron aeron;
    private final AeronArchive archive;
    private Run kept;
    private int keptPayloadBytes;
    private long deletedRecording = NONE;
    private long seen;
    private long listed;
    private final List<ExclusivePublication> many = new ArrayList<>();
    private final List<AeronArchive> sessions = new ArrayList<>();

    public static void main(final String[] arguments) throws IOException
    {
        final ArchiveBench bench = new ArchiveBench(arguments);
        System.out.println("ready");
        final BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = input.readLine()) != null && !line.equals("close"))
        {
            final String[] words = line.split(" ");
            try
            {
                final int first = Integer.parseInt(words[1]);
                final long messages = words.length > 2 ? Long.parseLong(words[2]) : 0;
                System.out.println(switch (words[0])
                {
                    case "record" -> bench.recordOnly(first, messages);
                    case "replay" -> bench.replay(first, messages);
                    case "start" -> bench.latency(first, bench::startRecording);
                    case "first" -> bench.latency(first, bench::firstMessage);
                    case "list" -> bench.latency(first, bench::listRecordings);
                    case "one" -> bench.latency(first, () -> bench.listOne(messages));
                    case "udp" -> bench.recordOverUdp(first, messages);
                    case "open" -> bench.open(first);
                    case "pace" -> bench.pace(first, messages);
                    case "connect" -> bench.connect(first);
                    default -> throw new IllegalArgumentException("unknown verb " + words[0]);
                });
            }
            catch (final RuntimeException failure)
            {
                System.out.println("error " + failure.toString().replaceAll("\\s+", " "));
            }
        }
        CloseHelper.quietCloseAll(bench.many);
        CloseHelper.quietCloseAll(bench.sessions);
        CloseHelper.quietClose(bench.archive);
        CloseHelper.quietClose(bench.aeron);
        CloseHelper.quietClose(bench.driver);
        System.exit(0);
    }

    private ArchiveBench(final String[] arguments)
    {
        final String driverFolder = arguments[1];
        final int termBytes = Integer.parseInt(arguments[4]);
        driver = EXTERNAL.equals(arguments[2]) ? null : ArchivingMediaDriver.launch(
            new MediaDriver.Context()
                .aeronDirectoryName(driverFolder)
                .dirDeleteOnStart(true)
                .dirDeleteOnShutdown(true)
                .threadingMode(ThreadingMode.valueOf(arguments[2]))
                .termBufferSparseFile(false)
                .ipcTermBufferLength(termBytes)
                .publicationTermBufferLength(termBytes),
            new Archive.Context()
                .archiveDir(new File(arguments[0]))
                .aeronDirectoryName(driverFolder)
                .threadingMode(ArchiveThreadingMode.valueOf(arguments[3]))
                .controlChannelEnabled(false)
                .localControlChannel(CONTROL)
                .archiveClientContext(new AeronArchive.Context().controlResponseChannel(CONTROL))
                .replicationChannel("aeron:udp?endpoint=localhost:0")
                .recordingEventsEnabled(false)
                .segmentFileLength(Integer.parseInt(arguments[5]))
                .catalogFileSyncLevel(0)
                .fileSyncLevel(0));
        aeron = Aeron.connect(new Aeron.Context().aeronDirectoryName(driverFolder));
        archive = AeronArchive.connect(session()
            .recordingSignalConsumer((session, correlation, recording, subscription, position, signal) ->
                deletedRecording = RecordingSignal.DELETE == signal ? recording : deletedRecording));
    }

    private AeronArchive.Context session()
    {
        return new AeronArchive.Context()
            .aeron(aeron)
            .controlRequestChannel(CONTROL)
            .controlRequestStreamId(CONTROL_STREAM)
            .controlResponseChannel(CONTROL);
    }

    private static void await(final String what, final BooleanSupplier isDone)
    {
        final long end = System.nanoTime() + WAIT_NS;
        final IdleStrategy idle = YieldingIdleStrategy.INSTANCE;
        idle.reset();
        while (!isDone.getAsBoolean())
        {
            if (System.nanoTime() - end > 0)
            {
                throw new IllegalStateException("waited too long for " + what);
            }
            idle.idle();
        }
    }

    private String recordOnly(final int payloadBytes, final long messages)
    {
        forget(); // two recordings at a time would be twice the dirty pages
        final Run run = record(payloadBytes, messages);
        delete(run.recordingId());
        return run.line();
    }

    /** The archive's driver receives what the same driver sends through the loopback interface. */
    private String recordOverUdp(final int payloadBytes, final long messages)
    {
        forget();
        final Run run = record(payloadBytes, messages, udpChannel(), SourceLocation.REMOTE);
        delete(run.recordingId());
        return run.line();
    }

    private static String udpChannel()
    {
        try (DatagramSocket free = new DatagramSocket(0, InetAddress.getLoopbackAddress()))
        {
            return "aeron:udp?endpoint=127.0.0.1:" + free.getLocalPort() + "|mtu=8k";
        }
        catch (final IOException failure)
        {
            throw new IllegalStateException(failure);
        }
    }

    private Run record(final int payloadBytes, final long messages)
    {
        return record(payloadBytes, messages, CHANNEL, SourceLocation.LOCAL);
    }

    /** From the first offer until the recording's position is the publication's. */
    private Run record(
        final int payloadBytes, final long messages, final String channel, final SourceLocation location)
    {
        final UnsafeBuffer buffer = new UnsafeBuffer(ByteBuffer.allocateDirect(payloadBytes));
        final IdleStrategy idle = YieldingIdleStrategy.INSTANCE;
        try (ExclusivePublication publication = aeron.addExclusivePublication(channel, STREAM))
        {
            final long subscription = archive.startRecording(
                ChannelUri.addSessionId(channel, publication.sessionId()), STREAM, location);
            final CountersReader counters = aeron.countersReader();
            await("the recording's counter", () -> NONE != counterOf(publication) && publication.isConnected());
            final int counter = counterOf(publication);

            final long begin = System.nanoTime();
            for (long i = 0; i < messages; i++)
            {
                buffer.putLong(0, i);
                idle.reset();
                while (publication.offer(buffer, 0, payloadBytes) < 0)
                {
                    idle.idle();
                }
            }
            final long end = publication.position();
            await("the recording", () -> counters.getCounterValue(counter) >= end);
            final long took = System.nanoTime() - begin;

            final long recordingId = RecordingPos.getRecordingId(counters, counter);
            archive.stopRecording(subscription);
            await("the stop", () -> archive.getStopPosition(recordingId) != AeronArchive.NULL_POSITION);
            return new Run(recordingId, end, messages, took);
        }
    }

    private int counterOf(final ExclusivePublication publication)
    {
        return RecordingPos.findCounterIdBySession(
            aeron.countersReader(), publication.sessionId(), archive.archiveId());
    }

    /** From the request until the last message was polled: every message's running number is looked at. */
    private String replay(final int payloadBytes, final long messages)
    {
        if (kept == null || keptPayloadBytes != payloadBytes || kept.messages() != messages)
        {
            forget();
            kept = record(payloadBytes, messages);
            keptPayloadBytes = payloadBytes;
        }
        seen = 0;
        final FragmentHandler handler = (buffer, offset, length, header) ->
        {
            if (buffer.getLong(offset) != seen)
            {
                throw new IllegalStateException("message " + seen + " was expected");
            }
            seen++;
        };
        final IdleStrategy idle = YieldingIdleStrategy.INSTANCE;
        final long begin = System.nanoTime();
        final long took;
        try (Subscription subscription = archive.replay(
            kept.recordingId(), 0, kept.positionBytes(), CHANNEL, REPLAY_STREAM))
        {
            await("the replay", subscription::isConnected);
            final Image image = subscription.imageAtIndex(0);
            while (seen < messages)
            {
                final int fragments = image.poll(handler, FRAGMENTS_OF_A_POLL);
                if (0 == fragments && image.isClosed() && seen < messages)
                {
                    throw new IllegalStateException("the replay ended at message " + seen);
                }
                idle.idle(fragments);
            }
            took = System.nanoTime() - begin;
        }
        return new Run(kept.recordingId(), kept.positionBytes(), seen, took).line();
    }

    /** The median of some runs; each answers its nanoseconds. */
    private String latency(final int count, final LongSupplier run)
    {
        final long[] found = new long[count];
        for (int i = 0; i < count; i++)
        {
            found[i] = run.getAsLong();
        }
        Arrays.sort(found);
        return String.format(Locale.ROOT, "ok 0 0 %.9f", found[count / 2] / 1e9);
    }

    private long startRecording()
    {
        final long begin = System.nanoTime();
        final long subscription = archive.startRecording(CHANNEL, IDLE_STREAM, SourceLocation.LOCAL);
        final long took = System.nanoTime() - begin;
        archive.stopRecording(subscription);
        return took;
    }

    private long firstMessage()
    {
        if (kept == null)
        {
            kept = record(KEPT_BYTES, KEPT_MESSAGES);
            keptPayloadBytes = KEPT_BYTES;
        }
        final long[] found = {0};
        final long begin = System.nanoTime();
        try (Subscription subscription = archive.replay(
            kept.recordingId(), 0, kept.positionBytes(), CHANNEL, REPLAY_STREAM))
        {
            await("the first message", () ->
                subscription.poll((buffer, offset, length, header) -> found[0] = System.nanoTime(), 1) > 0);
        }
        return found[0] - begin;
    }

    /** Makes the recordings first. */
    private long listRecordings()
    {
        while (listed < LISTED)
        {
            final long before = archive.listRecordings(0, Integer.MAX_VALUE, NO_DESCRIPTOR);
            for (long i = before; i < LISTED; i++)
            {
                try (ExclusivePublication publication = aeron.addExclusivePublication(SMALL_CHANNEL, STREAM))
                {
                    final long subscription = archive.startRecording(
                        ChannelUri.addSessionId(SMALL_CHANNEL, publication.sessionId()), STREAM, SourceLocation.LOCAL);
                    await("the recording's counter", () -> NONE != counterOf(publication));
                    archive.stopRecording(subscription);
                    await("the stop", () -> NONE == counterOf(publication));
                }
            }
            listed = archive.listRecordings(0, Integer.MAX_VALUE, NO_DESCRIPTOR);
        }
        final long begin = System.nanoTime();
        final int found = archive.listRecordings(0, LISTED, NO_DESCRIPTOR);
        if (found != LISTED)
        {
            throw new IllegalStateException(found + " recordings listed");
        }
        return System.nanoTime() - begin;
    }

    private long listOne(final long recordings)
    {
        final long recordingId = ThreadLocalRandom.current().nextLong(recordings / 2, recordings);
        final long begin = System.nanoTime();
        final int found = archive.listRecording(recordingId, NO_DESCRIPTOR);
        final long took = System.nanoTime() - begin;
        if (found != 1)
        {
            throw new IllegalStateException("no recording " + recordingId);
        }
        return took;
    }

    /** Begins recordings of as many streams. */
    private String open(final int count)
    {
        while (many.size() < count)
        {
            final int stream = FIRST_OF_MANY + many.size();
            archive.startRecording(MANY_CHANNEL, stream, SourceLocation.LOCAL);
            many.add(aeron.addExclusivePublication(MANY_CHANNEL, stream));
        }
        for (final ExclusivePublication publication : many)
        {
            await("the recording's counter", () -> NONE != counterOf(publication) && publication.isConnected());
        }
        return String.format(Locale.ROOT, "ok 0 %d 0", many.size());
    }

    /** Publishes at an even pace. The seconds are those until all was recorded. */
    private String pace(final int rate, final long seconds)
    {
        final CountersReader counters = aeron.countersReader();
        final UnsafeBuffer buffer = new UnsafeBuffer(ByteBuffer.allocateDirect(PACED_BYTES));
        final long messages = rate * seconds;
        final long begin = System.nanoTime();
        long sent = 0;
        while (sent < messages)
        {
            final long due = Math.min(messages, (System.nanoTime() - begin) * rate / TimeUnit.SECONDS.toNanos(1));
            for (; sent < due; sent++)
            {
                final ExclusivePublication publication = many.get((int)(sent % many.size()));
                while (publication.offer(buffer, 0, PACED_BYTES) < 0)
                {
                    Thread.yield();
                }
            }
            LockSupport.parkNanos(PACE_NS);
        }
        for (final ExclusivePublication publication : many)
        {
            final int counter = counterOf(publication);
            await("the recording", () -> counters.getCounterValue(counter) >= publication.position());
        }
        return String.format(Locale.ROOT, "ok 0 %d %.9f", sent, (System.nanoTime() - begin) / 1e9);
    }

    /** Opens control sessions until there are as many. */
    private String connect(final int count)
    {
        while (sessions.size() < count)
        {
            final int stream = FIRST_OF_MANY + sessions.size(); // one for all would bring each answer to all
            sessions.add(AeronArchive.connect(session().controlResponseStreamId(stream).ownsAeronClient(false)));
        }
        return String.format(Locale.ROOT, "ok 0 %d 0", sessions.size());
    }

    private void forget()
    {
        if (kept != null)
        {
            delete(kept.recordingId());
            kept = null;
        }
    }

    private void delete(final long recordingId)
    {
        deletedRecording = NONE;
        archive.purgeRecording(recordingId);
        await("the files to go", () ->
        {
            archive.pollForRecordingSignals();
            return deletedRecording == recordingId;
        });
    }
}
