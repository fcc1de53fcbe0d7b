import io.aeron.Aeron;
import io.aeron.ExclusivePublication;
import io.aeron.FragmentAssembler;
import io.aeron.Publication;
import io.aeron.Subscription;
import io.aeron.archive.Archive;
import io.aeron.archive.ArchiveThreadingMode;
import io.aeron.archive.ArchivingMediaDriver;
import io.aeron.archive.client.AeronArchive;
import io.aeron.archive.codecs.SourceLocation;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import io.aeron.logbuffer.FragmentHandler;
import io.aeron.logbuffer.Header;
import java.io.File;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Writes a small archive with whatever release of Aeron is on the class path, or replays one with it.
 *
 * Generate stopped|killed DIR PUBLISHED.json, or Generate replay DIR TRUTH.json
 */
public final class Generate
{
    private static final int TERM = 64 * 1024;
    private static final int[] MIXED = {1, 31, 32, 33, 1000, 1376, 1377, 3000, 0, 8000, 64, 1408};
    private static final String CHANNEL = "aeron:ipc?term-length=65536";
    private static final int REPLAY_STREAM = 9000;

    private final StringBuilder published = new StringBuilder();
    private final UnsafeBuffer buffer = new UnsafeBuffer(new byte[8192]);
    private Aeron aeron;
    private AeronArchive archive;

    public static void main(final String[] args) throws Exception
    {
        final int segmentLength = args[0].equals("killed") ? TERM : 2 * TERM;
        final String aeronDir = "/dev/shm/aeron-old-" + System.nanoTime();
        final MediaDriver.Context driver = new MediaDriver.Context();
        set(driver, "aeronDirectoryName", aeronDir);
        driver.threadingMode(ThreadingMode.SHARED);
        driver.publicationTermBufferLength(TERM).ipcTermBufferLength(TERM);
        final Archive.Context recorder = new Archive.Context();
        recorder.archiveDir(new File(args[1])).segmentFileLength(segmentLength);
        recorder.threadingMode(ArchiveThreadingMode.SHARED);
        recorder.controlChannel("aeron:udp?endpoint=localhost:28010");
        recorder.recordingEventsChannel("aeron:udp?control-mode=dynamic|control=localhost:28030");
        tryTo(recorder, "replicationChannel", "aeron:udp?endpoint=localhost:0");
        set(recorder, "aeronDirectoryName", aeronDir);
        final Generate generate = new Generate();
        try (ArchivingMediaDriver server = ArchivingMediaDriver.launch(driver, recorder);
            Aeron aeron = Aeron.connect(new Aeron.Context().aeronDirectoryName(aeronDir));
            AeronArchive archive = AeronArchive.connect(new AeronArchive.Context().aeron(aeron)
                .controlRequestChannel("aeron:udp?endpoint=localhost:28010")
                .controlResponseChannel("aeron:udp?endpoint=localhost:28020")
                .recordingEventsChannel("aeron:udp?control-mode=dynamic|control=localhost:28030")))
        {
            generate.aeron = aeron;
            generate.archive = archive;
            switch (args[0])
            {
                case "stopped": generate.stopped(args[2]); break;
                case "killed": generate.killed(args[2]); break;
                default: generate.replayAll(args[2]);
            }
        }
        System.exit(0);
    }

    /** Start positions in the first term, the second, and behind the first segment; then what the release can do. */
    private void stopped(final String out) throws Exception
    {
        record(1001, 0, 200, 1, true);
        record(1002, 17, 200, 2, true);
        record(1003, 60, 200, 3, true);
        record(1004, 160, 200, 4, true);
        record(1005, 0, 0, 5, true);
        extend(0, 1001, 60, 6);
        final long[] last = record(1006, 0, 200, 7, true);
        if (has("truncateRecording"))
        {
            final long position = positions.get(positions.size() * 2 / 3);
            AeronArchive.class.getMethod("truncateRecording", long.class, long.class).invoke(archive, last[0], position);
        }
        if (has("purgeSegments"))
        {
            final long[] purged = record(1007, 0, 300, 8, true);
            AeronArchive.class.getMethod("purgeSegments", long.class, long.class).invoke(archive, purged[0], 4L * TERM);
        }
        write(out, "{" + published + "\n}\n");
    }

    /** Two recordings are being written when the process ends without a word. */
    private void killed(final String out) throws Exception
    {
        record(1001, 0, 100, 1, true);
        record(1002, 17, 100, 2, false);
        record(1003, 110, 100, 3, false);
        write(out, "{" + published + "\n}\n");
        Runtime.getRuntime().halt(9);
    }

    private final List<Long> positions = new ArrayList<>();

    /** Recording id and stop position. The recording joins behind the first {@code before} messages. */
    private long[] record(final int stream, final int before, final int count, final int seed, final boolean stop)
        throws Exception
    {
        final Publication publication = aeron.addPublication(CHANNEL, stream);
        final Subscription reader = aeron.addSubscription(CHANNEL, stream);
        await(() -> reader.imageCount() == 1);
        for (int i = 0; i < before; i++)
        {
            offer(publication, reader, 99, i);
        }
        final long start = publication.position();
        archive.startRecording("aeron:ipc", stream, SourceLocation.LOCAL);
        Thread.sleep(400);
        final long id = latest(stream)[0];
        positions.clear();
        publish(publication, reader, id, start, 0, count, seed);
        if (stop)
        {
            archive.stopRecording("aeron:ipc", stream);
            await(() -> latest(stream)[1] >= 0);
            check(latest(stream)[1], publication.position());
            publication.close();
        }
        reader.close();
        return new long[]{id, publication.position()};
    }

    private void extend(final long id, final int stream, final int count, final int seed) throws Exception
    {
        if (!has("extendRecording"))
        {
            return;
        }
        final long[] last = latest(stream);
        // Up to 1.9 a recording could only be extended by the session that it began with.
        final String session = has("getStopPosition") ? "" : "session-id=" + last[3];
        final String channel = CHANNEL + (session.isEmpty() ? "" : "|" + session) + "|init-term-id=" + last[2] + "|term-id=" + (last[2] + last[1] / TERM) +
            "|term-offset=" + last[1] % TERM;
        if (!session.isEmpty())
        {
            Thread.sleep(12_000);   // the first publication of that session lingers
        }
        final ExclusivePublication extending = aeron.addExclusivePublication(channel, stream);
        check(extending.position(), last[1]);
        AeronArchive.class.getMethod("extendRecording", long.class, String.class, int.class, SourceLocation.class)
            .invoke(archive, id, session.isEmpty() ? "aeron:ipc" : "aeron:ipc?" + session, stream, SourceLocation.LOCAL);
        await(extending::isConnected);
        comma(id + "-extended", last[1], seed, 0, count);
        for (int i = 0; i < count; i++)
        {
            final int length = fill(seed, i);
            final long reserved = ((long)seed << 32) | i;
            while (extending.offer(buffer, 0, length, (b, o, l) -> reserved) < 0)
            {
                Thread.yield();
            }
        }
        Thread.sleep(400);
        archive.stopRecording(session.isEmpty() ? "aeron:ipc" : "aeron:ipc?" + session, stream);
        await(() -> latest(stream)[1] > last[1]);
        check(latest(stream)[1], extending.position());
        extending.close();
    }

    private void publish(final Publication publication, final Subscription reader, final long id, final long start,
        final int from, final int count, final int seed) throws Exception
    {
        comma(String.valueOf(id), start, seed, from, count);
        for (int i = from; i < count; i++)
        {
            offer(publication, reader, seed, i);
            positions.add(publication.position());
        }
        Thread.sleep(400);
    }

    private void comma(final String id, final long start, final int seed, final int from, final int count)
    {
        published.append(published.length() == 0 ? "\n" : ",\n");
        published.append(" \"").append(id).append("\": {\"startPosition\": ").append(start).append(", \"seed\": ")
            .append(seed).append(", \"first\": ").append(from).append(", \"count\": ").append(count).append("}");
    }

    private void offer(final Publication publication, final Subscription reader, final int seed, final int i)
    {
        final int length = fill(seed, i);
        final long reserved = ((long)seed << 32) | i;
        while (publication.offer(buffer, 0, length, (b, o, l) -> reserved) < 0)
        {
            reader.poll((b, o, l, h) -> {}, 100);
        }
        reader.poll((b, o, l, h) -> {}, 100);
    }

    private int fill(final int seed, final int i)
    {
        final int length = MIXED[i % MIXED.length];
        for (int j = 0; j < length; j++)
        {
            buffer.putByte(j, (byte)(seed * 31 + i * 7 + length + j * (1 + (i & 3))));
        }
        return length;
    }

    private long[] latest(final int stream)
    {
        final long[] found = {-1, -1, 0, 0};
        archive.listRecordings(0, 100, (a, b, id, t0, t1, start, stop, initial, s, t, m, session, streamId, c, o, i) ->
        {
            if (streamId == stream)
            {
                found[0] = id;
                found[1] = stop;
                found[2] = initial;
                found[3] = session;
            }
        });
        return found;
    }

    private void replayAll(final String out) throws Exception
    {
        final List<String> descriptors = new ArrayList<>();
        final List<long[]> ranges = new ArrayList<>();
        archive.listRecordings(0, 100, (a, b, id, t0, t1, start, stop, initial, s, t, m, session, streamId, c, o, i) ->
        {
            descriptors.add(String.format("\"recordingId\": %d, \"startTimestamp\": %d, \"stopTimestamp\": %d, " +
                "\"startPosition\": %d, \"stopPosition\": %d, \"initialTermId\": %d, \"segmentFileLength\": %d, " +
                "\"termBufferLength\": %d, \"mtuLength\": %d, \"sessionId\": %d, \"streamId\": %d, " +
                "\"strippedChannel\": \"%s\", \"originalChannel\": \"%s\", \"sourceIdentity\": \"%s\"",
                id, t0, t1, start, stop, initial, s, t, m, session, streamId, c, o, i));
            ranges.add(new long[]{id, start, stop});
        });
        final StringBuilder json = new StringBuilder("{\"recordings\": [");
        for (int n = 0; n < ranges.size(); n++)
        {
            final long[] range = ranges.get(n);
            json.append(n == 0 ? "\n{" : ",\n{").append(descriptors.get(n)).append(",\n \"replay\": {");
            json.append("\"fragments\": [").append(replay(range, n, false)).append("],\n  \"messages\": [");
            json.append(replay(range, 100 + n, true)).append("]}}");
        }
        write(out, json.append("\n]}\n").toString());
    }

    private String replay(final long[] range, final int n, final boolean assemble) throws Exception
    {
        final StringBuilder rows = new StringBuilder();
        if (range[2] <= range[1])
        {
            return "";
        }
        final long[] end = {range[1]};
        final FragmentHandler handler = (DirectBuffer data, int offset, int length, Header header) ->
        {
            final CRC32 crc = new CRC32();
            final byte[] copy = new byte[length];
            data.getBytes(offset, copy);
            crc.update(copy);
            rows.append(rows.length() == 0 ? "" : ", ").append(String.format("[%d, %d, %d, %d, %d, %d, %d]",
                header.position(), length, header.reservedValue(), header.flags() & 0xFF, header.termId(),
                header.termOffset(), crc.getValue()));
            end[0] = header.position();
        };
        final FragmentHandler used = assemble ? new FragmentAssembler(handler) : handler;
        try (Subscription subscription = archive.replay(
            range[0], range[1], range[2] - range[1], "aeron:ipc", REPLAY_STREAM + n))
        {
            final long deadline = System.currentTimeMillis() + 15_000;
            while (end[0] < range[2] && System.currentTimeMillis() < deadline)
            {
                if (subscription.poll(used, 100) == 0 && subscription.imageCount() > 0 &&
                    subscription.imageAtIndex(0).position() >= range[2])
                {
                    break;
                }
            }
        }
        catch (final RuntimeException ex)
        {
            // Releases of 0.x recover a wrong stop position where a recording does not start at a term's start.
            System.out.println("recording " + range[0] + ": " + ex.getMessage());
        }
        System.out.println("recording " + range[0] + " replayed to " + end[0] + " of " + range[2]);
        return rows.toString();
    }

    private interface Condition
    {
        boolean holds();
    }

    private static void await(final Condition condition) throws Exception
    {
        final long deadline = System.currentTimeMillis() + 10_000;
        while (!condition.holds())
        {
            if (System.currentTimeMillis() > deadline)
            {
                throw new IllegalStateException("waited too long");
            }
            Thread.sleep(10);
        }
    }

    private static void check(final long found, final long expected)
    {
        if (found != expected)
        {
            throw new IllegalStateException("found " + found + ", expected " + expected);
        }
    }

    private static boolean has(final String method)
    {
        for (final java.lang.reflect.Method each : AeronArchive.class.getMethods())
        {
            if (each.getName().equals(method))
            {
                return true;
            }
        }
        return false;
    }

    /** Setters that moved to another class, or came, between the releases. */
    private static void set(final Object context, final String name, final String value) throws Exception
    {
        context.getClass().getMethod(name, String.class).invoke(context, value);
    }

    private static void tryTo(final Object context, final String name, final String value) throws Exception
    {
        try
        {
            set(context, name, value);
        }
        catch (final NoSuchMethodException ignore)
        {
            System.out.println("no " + name + " in this release");
        }
    }

    private static void write(final String name, final String text) throws Exception
    {
        try (PrintStream stream = new PrintStream(name))
        {
            stream.print(text);
        }
    }
}
