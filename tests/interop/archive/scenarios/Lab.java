import io.aeron.Aeron;
import io.aeron.ChannelUri;
import io.aeron.ExclusivePublication;
import io.aeron.FragmentAssembler;
import io.aeron.Image;
import io.aeron.Publication;
import io.aeron.Subscription;
import io.aeron.archive.ArchiveTool;
import io.aeron.archive.client.AeronArchive;
import io.aeron.archive.client.ArchiveException;
import io.aeron.archive.client.ReplayParams;
import io.aeron.archive.codecs.RecordingSignal;
import io.aeron.archive.codecs.SourceLocation;
import io.aeron.archive.status.RecordingPos;
import io.aeron.logbuffer.FragmentHandler;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.agrona.CloseHelper;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * What a scenario works with: a client of the driver and, once it is asked for, one of the archive. Streams, ports and
 * messages are made here; facts are noted here. Facts must be the same in each run: no ids that are given out, no ports.
 */
final class Lab implements AutoCloseable
{
    static final int TERM = 64 << 10;
    static final int SEGMENT = 128 << 10;
    static final int MESSAGE = 1024 - 32; // with its header, a frame of 1 KiB
    static final String IPC = "aeron:ipc?term-length=64k";
    private static final long WAIT_NS = TimeUnit.SECONDS.toNanos(20);
    private static int lastStream = 5000;

    /** A signal that has come. */
    record Signal(RecordingSignal kind, long recordingId, long position) {}

    /** A recording, and where its stream begins and ends. */
    record Recorded(long id, int streamId, int sessionId, long start, long stop, int initialTermId) {}

    /** What the archive says of a recording. */
    record Descriptor(
        long id, long start, long stop, int initialTermId, int termBytes, int mtu, int streamId, String channel) {}

    /** An action that may be refused. */
    interface Action
    {
        Object run() throws Exception;
    }

    final Map<String, String> place;
    final File folder;
    final Aeron aeron;
    final List<Signal> signals = new ArrayList<>();
    private final List<AutoCloseable> opened = new ArrayList<>();
    private AeronArchive archive;

    Lab(final Map<String, String> place)
    {
        this.place = place;
        folder = new File(place.get("folder"));
        aeron = Aeron.connect(new Aeron.Context().aeronDirectoryName(place.get("driver")));
    }

    public void close()
    {
        CloseHelper.quietClose(archive);
        opened.forEach(CloseHelper::quietClose);
        CloseHelper.quietClose(aeron);
    }

    /** Closed at the scenario's end at the latest. */
    <T extends AutoCloseable> T opened(final T one)
    {
        opened.add(one);
        return one;
    }

    // Clients

    /** The context of a client over IPC. */
    AeronArchive.Context local()
    {
        return new AeronArchive.Context()
            .aeron(aeron)
            .ownsAeronClient(false)
            .messageTimeoutNs(WAIT_NS)
            .messageRetryAttempts(10_000) // a machine that has much to do may keep the driver from its duty
            .controlRequestChannel(place.get("local"))
            .controlRequestStreamId(Integer.parseInt(place.get("local-stream")))
            .controlResponseChannel("aeron:ipc?term-length=64k")
            .controlResponseStreamId(nextStream())
            .recordingSignalConsumer((session, correlation, recording, subscription, position, signal) ->
                signals.add(new Signal(signal, recording, position)));
    }

    /** The context of a client over UDP. */
    AeronArchive.Context remote(final String responses)
    {
        return local()
            .controlRequestChannel(place.get("control"))
            .controlRequestStreamId(Integer.parseInt(place.get("control-stream")))
            .controlResponseChannel(responses);
    }

    /** The scenario's own client, over IPC. */
    AeronArchive archive()
    {
        if (archive == null)
        {
            archive = AeronArchive.connect(local());
        }
        return archive;
    }

    static int nextStream()
    {
        return ++lastStream;
    }

    /** A UDP endpoint of the loopback interface that is free. */
    static String endpoint() throws IOException
    {
        try (DatagramSocket socket = new DatagramSocket(0, InetAddress.getLoopbackAddress()))
        {
            return "localhost:" + socket.getLocalPort();
        }
    }

    static String udp() throws IOException
    {
        return "aeron:udp?endpoint=" + endpoint();
    }

    // Facts

    void note(final String name, final Object value)
    {
        ScenarioPeer.say("fact " + name + ": " + masked(String.valueOf(value)));
    }

    /** Numbers are there to be read, but those that differ in each run. */
    private String masked(final String text)
    {
        return text.replace(folder.toString(), "<folder>");
    }

    /** Do what the archive refuses, or doesn't: the code and the text, its numbers masked. */
    void attempt(final String name, final Action action)
    {
        try
        {
            note(name, "done " + action.run());
        }
        catch (final ArchiveException refused)
        {
            final String text = refused.getMessage().replaceFirst("^.*?error: ", "");
            note(name, "refused " + refused.errorCode() + ", " + masked(text).replaceAll("\\d+", "N"));
        }
        catch (final Exception failure)
        {
            note(name, failure.getClass().getSimpleName());
        }
    }

    static void await(final String what, final BooleanSupplier isDone)
    {
        final long end = System.nanoTime() + WAIT_NS;
        while (!isDone.getAsBoolean())
        {
            if (System.nanoTime() - end > 0)
            {
                throw new IllegalStateException("waited too long for " + what);
            }
            LockSupport.parkNanos(20_000);
        }
    }

    /** Whether something stays so for a while. */
    static boolean stays(final int milliseconds, final BooleanSupplier holds)
    {
        final long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(milliseconds);
        while (System.nanoTime() - end < 0)
        {
            if (!holds.getAsBoolean())
            {
                return false;
            }
            LockSupport.parkNanos(1_000_000);
        }
        return true;
    }

    void awaitSignal(final long recordingId, final RecordingSignal kind)
    {
        await("signal " + kind, () ->
        {
            archive().pollForRecordingSignals();
            return signals.stream().anyMatch(
                (signal) -> signal.kind() == kind && signal.recordingId() == recordingId);
        });
    }

    /** The signals of a recording that have come since they were last noted. */
    void noteSignals(final long recordingId)
    {
        note("signals", signals.stream()
            .filter((signal) -> signal.recordingId() == recordingId)
            .map((signal) -> signal.kind() + "@" + signal.position())
            .collect(Collectors.joining(" ")));
        signals.clear();
    }

    // Streams

    void offer(final Publication publication, final int first, final int count, final int length)
    {
        for (int i = first; i < first + count; i++)
        {
            final UnsafeBuffer message = new UnsafeBuffer(message(i, length));
            await("room to publish", () ->
            {
                final long result = publication.offer(message);
                if (result == Publication.CLOSED || result == Publication.MAX_POSITION_EXCEEDED)
                {
                    throw new IllegalStateException("publishing: " + Publication.errorString(result));
                }
                return result > 0;
            });
        }
    }

    /** Messages of 1 KiB with their header, up to a position. */
    void offerTo(final Publication publication, final long position)
    {
        int i = 0;
        while (publication.position() < position)
        {
            offer(publication, i++, 1, (int)Math.min(MESSAGE, position - publication.position() - 32));
        }
    }

    static byte[] message(final int index, final int length)
    {
        final byte[] payload = new byte[length];
        for (int i = 0; i < length; i++)
        {
            payload[i] = (byte)(index * 31 + i * 7 + length);
        }
        return payload;
    }

    /** Read messages, which must be those that {@link #offer} publishes. */
    void consume(final Subscription subscription, final int first, final int count, final int length)
    {
        final int[] next = { first };
        final FragmentHandler handler = new FragmentAssembler((buffer, offset, bytes, header) ->
        {
            final byte[] payload = new byte[bytes];
            buffer.getBytes(offset, payload);
            if (!Arrays.equals(payload, message(next[0], length)))
            {
                throw new IllegalStateException("message " + next[0] + " is not what was published");
            }
            next[0]++;
        });
        await("messages", () ->
        {
            subscription.poll(handler, 16);
            return next[0] >= first + count;
        });
    }

    int counter(final int sessionId)
    {
        final int[] found = { Aeron.NULL_VALUE };
        await("the recording's counter", () ->
        {
            archive().checkForErrorResponse();
            found[0] = RecordingPos.findCounterIdBySession(
                aeron.countersReader(), sessionId, archive().archiveId());
            return found[0] != Aeron.NULL_VALUE;
        });
        return found[0];
    }

    long recordingOf(final Publication publication)
    {
        return RecordingPos.getRecordingId(aeron.countersReader(), counter(publication.sessionId()));
    }

    void awaitRecorded(final long recordingId, final long position)
    {
        await("the recording to reach " + position, () -> archive().getMaxRecordedPosition(recordingId) >= position);
    }

    /** All that is published there is recorded; then it ends. */
    Recorded stop(final Publication publication, final long recordingId)
    {
        awaitRecorded(recordingId, publication.position());
        archive().stopRecording(publication);
        awaitSignal(recordingId, RecordingSignal.STOP);
        final int streamId = publication.streamId();
        publication.close();
        final long start = archive().getStartPosition(recordingId);
        final long stop = archive().getStopPosition(recordingId);
        return new Recorded(
            recordingId, streamId, publication.sessionId(), start, stop, publication.initialTermId());
    }

    /** A recording of messages of 1 KiB with their header, up to a position. */
    Recorded record(final String channel, final int streamId, final long position)
    {
        final ExclusivePublication publication = archive().addRecordedExclusivePublication(channel, streamId);
        final long recordingId = recordingOf(publication);
        await("a connection", publication::isConnected);
        offerTo(publication, position);
        return stop(publication, recordingId);
    }

    /** The channel of a publication that begins at a position. */
    static String at(final String channel, final long position, final int initialTermId, final int termBytes)
    {
        final ChannelUri uri = ChannelUri.parse(channel);
        uri.initialPosition(position, initialTermId, termBytes);
        return uri.toString();
    }

    /** A replay to its end: messages and the position after them, and whether they are those of {@link #offerTo}. */
    String replayed(final Recorded recorded, final long position, final long end)
    {
        final int[] count = { 0 };
        final long[] sum = { 0 };
        final FragmentHandler handler = new FragmentAssembler((buffer, offset, length, header) ->
        {
            count[0]++;
            for (int i = 0; i < length; i++)
            {
                sum[0] = (sum[0] * 31 + buffer.getByte(offset + i)) & 0xFFFFFFFFL;
            }
        });
        try (Subscription subscription = archive().replay(
            recorded.id(), "aeron:ipc", nextStream(), new ReplayParams().position(position).length(end - position)))
        {
            await("the replay", () ->
            {
                archive().checkForErrorResponse();
                return subscription.isConnected();
            });
            final Image image = subscription.imageAtIndex(0);
            await("the replay's end", () ->
            {
                image.poll(handler, 64);
                return image.position() >= end || image.isClosed();
            });
            return count[0] + " messages to " + image.position() + ", sum " + sum[0];
        }
    }

    // The archive

    List<Descriptor> listed(final long recordingId)
    {
        final List<Descriptor> found = new ArrayList<>();
        archive().listRecording(recordingId, (session, correlation, id, startTime, stopTime, start, stop, initialTermId,
            segmentBytes, termBytes, mtu, sessionId, streamId, stripped, channel, source) -> found.add(
            new Descriptor(id, start, stop, initialTermId, termBytes, mtu, streamId, channel)));
        return found;
    }

    void notePositions(final long id)
    {
        note("start, recorded, stop, furthest", archive().getStartPosition(id) + " " +
            archive().getRecordingPosition(id) + " " + archive().getStopPosition(id) + " " +
            archive().getMaxRecordedPosition(id));
    }

    long start(final String channel, final int streamId)
    {
        return archive().startRecording(channel, streamId, SourceLocation.LOCAL);
    }

    /** Names of a recording's files, without its id. */
    String files(final long recordingId)
    {
        final String prefix = recordingId + "-";
        final String[] names = folder.list((parent, name) -> name.startsWith(prefix));
        return Arrays.stream(names)
            .map((name) -> name.substring(prefix.length()))
            .sorted()
            .collect(Collectors.joining(" ", "[", "]"));
    }

    File file(final long recordingId, final Object rest)
    {
        return new File(folder, recordingId + "-" + rest);
    }

    File segment(final long recordingId, final long base)
    {
        return file(recordingId, base + ".rec");
    }

    /** What Aeron's tool says of a recording's files. */
    void verify(final long recordingId)
    {
        final ByteArrayOutputStream said = new ByteArrayOutputStream();
        final boolean isGood = ArchiveTool.verifyRecording(new PrintStream(said), folder, recordingId,
            EnumSet.allOf(ArchiveTool.VerifyOption.class), "io.aeron.archive.checksum.Crc32c", (file) -> false);
        note("verified", isGood + " " + said.toString().trim().replace("=" + recordingId + ")", "=<id>)"));
    }
}
