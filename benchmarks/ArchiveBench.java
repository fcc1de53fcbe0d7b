import io.aeron.Aeron;
import io.aeron.ChannelUri;
import io.aeron.ExclusivePublication;
import io.aeron.Image;
import io.aeron.Subscription;
import io.aeron.archive.Archive;
import io.aeron.archive.ArchiveThreadingMode;
import io.aeron.archive.ArchivingMediaDriver;
import io.aeron.archive.client.AeronArchive;
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
import java.nio.ByteBuffer;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
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
 */
public final class ArchiveBench
{
    private static final String CONTROL = "aeron:ipc?term-length=64k";
    private static final String CHANNEL = "aeron:ipc";
    private static final int STREAM = 1_001;
    private static final int REPLAY_STREAM = 1_002;
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
                final int payloadBytes = Integer.parseInt(words[1]);
                final long messages = Long.parseLong(words[2]);
                System.out.println(
                    words[0].equals("record") ?
                    bench.recordOnly(payloadBytes, messages) : bench.replay(payloadBytes, messages));
            }
            catch (final RuntimeException failure)
            {
                System.out.println("error " + failure.toString().replaceAll("\\s+", " "));
            }
        }
        CloseHelper.quietClose(bench.archive);
        CloseHelper.quietClose(bench.aeron);
        CloseHelper.quietClose(bench.driver);
        System.exit(0);
    }

    private ArchiveBench(final String[] arguments)
    {
        final String driverFolder = arguments[1];
        final int termBytes = Integer.parseInt(arguments[4]);
        driver = ArchivingMediaDriver.launch(
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
        archive = AeronArchive.connect(new AeronArchive.Context()
            .aeron(aeron)
            .controlRequestChannel(CONTROL)
            .controlRequestStreamId(driver.archive().context().localControlStreamId())
            .controlResponseChannel(CONTROL)
            .recordingSignalConsumer((session, correlation, recording, subscription, position, signal) ->
                deletedRecording = RecordingSignal.DELETE == signal ? recording : deletedRecording));
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

    /** From the first offer until the recording's position is the publication's. */
    private Run record(final int payloadBytes, final long messages)
    {
        final UnsafeBuffer buffer = new UnsafeBuffer(ByteBuffer.allocateDirect(payloadBytes));
        final IdleStrategy idle = YieldingIdleStrategy.INSTANCE;
        try (ExclusivePublication publication = aeron.addExclusivePublication(CHANNEL, STREAM))
        {
            final long subscription = archive.startRecording(
                ChannelUri.addSessionId(CHANNEL, publication.sessionId()), STREAM, SourceLocation.LOCAL);
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
