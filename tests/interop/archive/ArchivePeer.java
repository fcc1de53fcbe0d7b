import io.aeron.Aeron;
import io.aeron.ChannelUri;
import io.aeron.ChannelUriStringBuilder;
import io.aeron.ExclusivePublication;
import io.aeron.FragmentAssembler;
import io.aeron.Image;
import io.aeron.Subscription;
import io.aeron.archive.Archive;
import io.aeron.archive.ArchiveThreadingMode;
import io.aeron.archive.ArchivingMediaDriver;
import io.aeron.archive.checksum.Checksums;
import io.aeron.archive.client.AeronArchive;
import io.aeron.archive.client.RecordingDescriptorConsumer;
import io.aeron.archive.codecs.RecordingSignal;
import io.aeron.archive.codecs.SourceLocation;
import io.aeron.archive.status.RecordingPos;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import io.aeron.logbuffer.FragmentHandler;
import io.aeron.logbuffer.Header;
import io.aeron.security.Authenticator;
import io.aeron.security.CredentialsSupplier;
import io.aeron.security.SessionProxy;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.LongSupplier;
import java.util.zip.CRC32;
import org.agrona.CloseHelper;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * The real Aeron Archive in one process with its media driver, or on a driver that runs already (external-driver=true),
 * on a given folder, told what to do by lines on stdin.
 *
 * <p>Arguments: the archive's folder, the driver's folder, and options as name=value (see {@link #launch}). It prints
 * {@code ready} when it serves. A command's answer is lines and at last {@code ok ...} or {@code error ...}; signals
 * that came meanwhile are lines {@code signal CODE RECORDING POSITION}. At the end of stdin it closes cleanly.
 *
 * <p>Everything goes through IPC, so that no two processes fight for a port; with control=CHANNEL the archive serves
 * others by UDP, too. events=CHANNEL publishes recording events. With password=TEXT clients that send credentials are
 * challenged.
 *
 * <p>With archive=CHANNEL no archive is started: it is a client of one that serves on that channel, by the driver in the
 * driver's folder; answers=CHANNEL and credentials=TEXT are its own.
 */
public final class ArchivePeer
{
    private static final String CONTROL = "aeron:ipc?term-length=64k";
    private static final int SERVICE_STREAM = 10;
    private static final int REQUESTS_STREAM = 90_001; // far from those that are recorded
    private static final int RESPONSES_STREAM = 90_002;
    private static final int REPLAY_STREAM = 90_003;
    private static final long WAIT_NS = TimeUnit.SECONDS.toNanos(40);
    private static final long TIMEOUT_NS = TimeUnit.SECONDS.toNanos(30);
    private static final PrintStream OUT = new PrintStream(System.out, false);

    /** A recording that this process feeds. */
    private record Feed(ExclusivePublication publication, long subscriptionId, int counterId) {}

    private final List<String> errors = new ArrayList<>();
    private final Map<Long, Feed> feeds = new HashMap<>();
    private final AutoCloseable driver;
    private final Aeron aeron;
    private final AeronArchive archive;
    private long deletedRecording;

    public static void main(final String[] arguments) throws IOException
    {
        final Map<String, String> options = new HashMap<>();
        for (int i = 2; i < arguments.length; i++)
        {
            final String[] parts = arguments[i].split("=", 2);
            options.put(parts[0], parts[1]);
        }
        final ArchivePeer peer;
        try
        {
            peer = new ArchivePeer(new File(arguments[0]), arguments[1], options);
        }
        catch (final Throwable failure)
        {
            answer("error " + oneLine(failure));
            System.exit(1);
            return;
        }
        answer("ready " + peer.archive.archiveId());
        peer.obey(new BufferedReader(new InputStreamReader(System.in)));
        System.exit(0); // a thread that still waits for something must not keep the process
    }

    private ArchivePeer(final File folder, final String driverFolder, final Map<String, String> options)
    {
        final boolean isClient = options.containsKey("archive");
        driver = isClient ? () -> {} : launch(folder, driverFolder, options);
        aeron = Aeron.connect(new Aeron.Context().aeronDirectoryName(driverFolder));
        archive = AeronArchive.connect(new AeronArchive.Context()
            .aeron(aeron)
            .messageTimeoutNs(TIMEOUT_NS)
            .controlRequestChannel(isClient ? options.get("archive") : CONTROL)
            .controlRequestStreamId(isClient ? SERVICE_STREAM : REQUESTS_STREAM)
            .controlResponseChannel(options.getOrDefault("answers", CONTROL))
            .controlResponseStreamId(RESPONSES_STREAM)
            .credentialsSupplier(new SaidCredentials(options.getOrDefault("credentials", "")))
            .recordingSignalConsumer((session, correlation, recording, subscription, position, signal) ->
            {
                OUT.println("signal " + signal + " " + recording + " " + position);
                deletedRecording = RecordingSignal.DELETE == signal ? recording : deletedRecording;
            }));
    }

    private AutoCloseable launch(
        final File folder, final String driverFolder, final Map<String, String> options)
    {
        final int termBytes = Integer.parseInt(options.get("term"));
        final MediaDriver.Context media = new MediaDriver.Context()
            .aeronDirectoryName(driverFolder)
            .dirDeleteOnStart(true)
            .dirDeleteOnShutdown(true)
            .threadingMode(ThreadingMode.SHARED)
            .spiesSimulateConnection(true)
            .termBufferSparseFile(true)
            .ipcTermBufferLength(termBytes)
            .publicationTermBufferLength(termBytes)
            .clientLivenessTimeoutNs(TIMEOUT_NS)
            .publicationUnblockTimeoutNs(2 * TIMEOUT_NS)
            .errorHandler(this::onError);
        final Archive.Context context = new Archive.Context()
            .archiveDir(folder)
            .aeronDirectoryName(driverFolder)
            .threadingMode(ArchiveThreadingMode.SHARED)
            .controlChannelEnabled(false)
            .localControlChannel(CONTROL)
            .localControlStreamId(REQUESTS_STREAM)
            .archiveClientContext(new AeronArchive.Context().controlResponseChannel(CONTROL)) // it insists on one
            .replicationChannel("aeron:udp?endpoint=localhost:0")
            .recordingEventsEnabled(false)
            .segmentFileLength(Integer.parseInt(options.get("segment")))
            .catalogFileSyncLevel(Integer.parseInt(options.get("catalog-sync")))
            .fileSyncLevel(Integer.parseInt(options.get("sync")))
            .errorHandler(this::onError);
        if (options.containsKey("control"))
        {
            context.controlChannelEnabled(true).controlChannel(options.get("control"));
        }
        if (options.containsKey("events"))
        {
            context.recordingEventsEnabled(true).recordingEventsChannel(options.get("events"));
        }
        if (options.containsKey("password"))
        {
            context.authenticatorSupplier(() -> new AskingAuthenticator(options.get("password")));
        }
        if (options.containsKey("catalog"))
        {
            context.catalogCapacity(Long.parseLong(options.get("catalog")));
        }
        if (options.containsKey("checksum"))
        {
            context.recordChecksum(Checksums.newInstance(options.get("checksum")));
            context.replayChecksum(Checksums.newInstance(options.get("checksum")));
        }
        return options.containsKey("external-driver") ?
            Archive.launch(context) : ArchivingMediaDriver.launch(media, context);
    }

    /** Takes no credentials at once: it asks clients that send any, and wants the password as the answer. */
    private static final class AskingAuthenticator implements Authenticator
    {
        private final byte[] password;
        private final Map<Long, byte[]> said = new HashMap<>();

        private AskingAuthenticator(final String password)
        {
            this.password = password.getBytes(StandardCharsets.US_ASCII);
        }

        public void onConnectRequest(final long sessionId, final byte[] credentials, final long nowMs)
        {
            said.put(sessionId, credentials);
        }

        public void onChallengeResponse(final long sessionId, final byte[] credentials, final long nowMs)
        {
            said.put(sessionId, credentials);
        }

        public void onConnectedSession(final SessionProxy session, final long nowMs)
        {
            final byte[] credentials = said.get(session.sessionId());
            if (credentials.length == 0)
            {
                session.authenticate(null); // the client of this program
            }
            else
            {
                session.challenge("who are you?".getBytes(StandardCharsets.US_ASCII));
            }
        }

        public void onChallengedSession(final SessionProxy session, final long nowMs)
        {
            final byte[] credentials = said.get(session.sessionId());
            if (Arrays.equals(credentials, password))
            {
                session.authenticate(credentials);
            }
            else if (!Arrays.equals(credentials, "first".getBytes(StandardCharsets.US_ASCII)))
            {
                session.reject();
            }
        }
    }

    /** The same credentials for each question. */
    private record SaidCredentials(String text) implements CredentialsSupplier
    {
        public byte[] encodedCredentials()
        {
            return text.getBytes(StandardCharsets.US_ASCII);
        }

        public byte[] onChallenge(final byte[] challenge)
        {
            return encodedCredentials();
        }
    }

    private void onError(final Throwable failure)
    {
        synchronized (errors)
        {
            errors.add(oneLine(failure));
        }
    }

    private static String oneLine(final Throwable failure)
    {
        final StringBuilder text = new StringBuilder(failure.toString());
        for (Throwable cause = failure.getCause(); cause != null; cause = cause.getCause())
        {
            text.append(" <- ").append(cause);
        }
        return text.toString().replaceAll("\\s+", " ");
    }

    private static void answer(final String line)
    {
        OUT.println(line);
        OUT.flush();
    }

    private void obey(final BufferedReader input) throws IOException
    {
        String line;
        while ((line = input.readLine()) != null && !line.equals("close"))
        {
            try
            {
                final String said = perform(line.split(" "));
                archive.pollForRecordingSignals();
                answer(said.isEmpty() ? "ok" : "ok " + said);
            }
            catch (final Throwable failure)
            {
                answer("error " + oneLine(failure));
            }
        }
        CloseHelper.quietClose(archive);
        CloseHelper.quietClose(aeron);
        CloseHelper.quietClose(driver);
        answer("ok");
    }

    private String perform(final String[] words)
    {
        final long first = words.length > 1 && !words[0].equals("record") ? Long.parseLong(words[1]) : -1;
        final long second = words.length == 3 ? Long.parseLong(words[2]) : -1;
        return switch (words[0])
        {
            case "list" -> list();
            case "errors" -> tellErrors();
            case "record" -> record(words[1], Integer.parseInt(words[2]));
            case "extend" -> extend(first);
            case "publish" -> publish(first, words);
            case "stop" -> stop(first);
            case "replay" -> replay(first, words);
            case "positions" -> archive.getStartPosition(first) + " " + archive.getRecordingPosition(first) + " " +
                archive.getStopPosition(first) + " " + archive.getMaxRecordedPosition(first);
            case "detach" ->
            {
                archive.detachSegments(first, second);
                yield "0";
            }
            case "attach" -> Long.toString(archive.attachSegments(first));
            case "truncate" -> deleting(first, () -> archive.truncateRecording(first, second));
            case "purge-segments" -> deleting(first, () -> archive.purgeSegments(first, second));
            case "delete-detached" -> deleting(first, () -> archive.deleteDetachedSegments(first));
            case "purge" -> deleting(first, () -> archive.purgeRecording(first));
            case "migrate-segments" -> deleting(first, () -> archive.migrateSegments(first, second));
            default -> throw new IllegalArgumentException("unknown command " + words[0]);
        };
    }

    /** Files go after the answer, by and by: a signal says when all are gone. */
    private String deleting(final long recordingId, final LongSupplier operation)
    {
        deletedRecording = -1;
        final long count = operation.getAsLong();
        if (count > 0)
        {
            await("the signal DELETE", () ->
            {
                archive.pollForRecordingSignals();
                return deletedRecording == recordingId;
            });
        }
        return Long.toString(count);
    }

    private static void await(final String what, final BooleanSupplier isDone)
    {
        final long end = System.nanoTime() + WAIT_NS;
        while (!isDone.getAsBoolean())
        {
            if (System.nanoTime() - end > 0)
            {
                throw new IllegalStateException("waited too long for " + what);
            }
            Thread.yield();
        }
    }

    // Recording

    private String record(final String channel, final int streamId)
    {
        final ExclusivePublication publication = aeron.addExclusivePublication(channel, streamId);
        final String recorded = ChannelUri.addSessionId(channel, publication.sessionId());
        return feed(publication, archive.startRecording(recorded, streamId, SourceLocation.LOCAL));
    }

    private String extend(final long recordingId)
    {
        final String[] result = new String[1];
        final RecordingDescriptorConsumer consumer = (session, correlation, id, startTime, stopTime, start, stop,
            initialTermId, segmentBytes, termBytes, mtu, sessionId, streamId, stripped, channel, source) ->
        {
            // Where it begins and its form must be the recording's; of its channel, the address remains.
            result[0] = new ChannelUriStringBuilder(stripped)
                .sessionId((Integer)null)
                .initialPosition(stop, initialTermId, termBytes)
                .mtu(mtu)
                .build() + " " + streamId;
        };
        if (0 == archive.listRecording(recordingId, consumer))
        {
            throw new IllegalArgumentException("unknown recording " + recordingId);
        }
        final String[] parts = result[0].split(" ");
        final int streamId = Integer.parseInt(parts[1]);
        final ExclusivePublication publication = aeron.addExclusivePublication(parts[0], streamId);
        final String recorded = ChannelUri.addSessionId(parts[0], publication.sessionId());
        try
        {
            return feed(
                publication, archive.extendRecording(recordingId, recorded, streamId, SourceLocation.LOCAL));
        }
        catch (final RuntimeException failure)
        {
            publication.close();
            throw failure;
        }
    }

    private String feed(final ExclusivePublication publication, final long subscriptionId)
    {
        final int[] counter = { Aeron.NULL_VALUE };
        await("the recording's counter", () ->
        {
            archive.checkForErrorResponse();
            counter[0] = RecordingPos.findCounterIdBySession(
                aeron.countersReader(), publication.sessionId(), archive.archiveId());
            return counter[0] != Aeron.NULL_VALUE && publication.isConnected();
        });
        final long recordingId = RecordingPos.getRecordingId(aeron.countersReader(), counter[0]);
        feeds.put(recordingId, new Feed(publication, subscriptionId, counter[0]));
        return recordingId + " " + publication.position() + " " + publication.position() + " " +
            publication.sessionId();
    }

    /** publish ID SEED FIRST COUNT SIZE,SIZE,...: messages by the rule of the golden data, until all are recorded. */
    private String publish(final long recordingId, final String[] words)
    {
        final Feed feed = fed(recordingId);
        final int seed = Integer.parseInt(words[2]);
        final long begin = Long.parseLong(words[3]);
        final long end = begin + Long.parseLong(words[4]);
        final String[] sizes = words[5].split(",");
        final ExclusivePublication publication = feed.publication();
        final long from = publication.position();
        for (long i = begin; i < end; i++)
        {
            final int length = Integer.parseInt(sizes[(int)(i % sizes.length)]);
            final byte[] payload = new byte[length];
            for (int j = 0; j < length; j++)
            {
                payload[j] = (byte)(seed * 31 + i * 7 + length + j * (1 + (i & 3)));
            }
            final long reserved = ((long)seed << 32) | i;
            final UnsafeBuffer buffer = new UnsafeBuffer(payload);
            await("room to publish", () ->
            {
                final long result = publication.offer(buffer, 0, length, (term, offset, bytes) -> reserved);
                if (result == ExclusivePublication.CLOSED || result == ExclusivePublication.MAX_POSITION_EXCEEDED)
                {
                    throw new IllegalStateException("publishing: " + ExclusivePublication.errorString(result));
                }
                return result >= 0;
            });
        }
        awaitRecorded(feed);
        return recordingId + " " + from + " " + publication.position() + " " + publication.sessionId();
    }

    private void awaitRecorded(final Feed feed)
    {
        final long position = feed.publication().position();
        await("the recording to reach " + position, () ->
        {
            archive.checkForErrorResponse();
            return aeron.countersReader().getCounterValue(feed.counterId()) >= position;
        });
    }

    private Feed fed(final long recordingId)
    {
        final Feed feed = feeds.get(recordingId);
        if (feed == null)
        {
            throw new IllegalArgumentException("recording " + recordingId + " is not recorded here");
        }
        return feed;
    }

    private String stop(final long recordingId)
    {
        final Feed feed = fed(recordingId);
        awaitRecorded(feed);
        archive.stopRecording(feed.subscriptionId());
        feed.publication().close();
        feeds.remove(recordingId);
        await("the stop position", () -> archive.getStopPosition(recordingId) != AeronArchive.NULL_POSITION);
        return Long.toString(archive.getStopPosition(recordingId));
    }

    // Reading

    private String list()
    {
        return Integer.toString(archive.listRecordings(0, Integer.MAX_VALUE, (session, correlation, id, startTime,
            stopTime, start, stop, initialTermId, segmentBytes, termBytes, mtu, sessionId, streamId, stripped, channel,
            source) -> OUT.println("{" +
            "\"recording_id\": " + id +
            ", \"start_timestamp\": " + startTime +
            ", \"stop_timestamp\": " + stopTime +
            ", \"start_position\": " + start +
            ", \"stop_position\": " + stop +
            ", \"initial_term_id\": " + initialTermId +
            ", \"segment_file_length\": " + segmentBytes +
            ", \"term_buffer_length\": " + termBytes +
            ", \"mtu_length\": " + mtu +
            ", \"session_id\": " + sessionId +
            ", \"stream_id\": " + streamId +
            ", \"stripped_channel\": " + quoted(stripped) +
            ", \"original_channel\": " + quoted(channel) +
            ", \"source_identity\": " + quoted(source) + "}")));
    }

    private static String quoted(final String text)
    {
        final StringBuilder result = new StringBuilder("\"");
        for (int i = 0; i < text.length(); i++)
        {
            final char letter = text.charAt(i);
            final boolean isPlain = letter >= ' ' && letter < 127 && letter != '"' && letter != '\\';
            result.append(isPlain ? Character.toString(letter) : String.format("\\u%04x", (int)letter));
        }
        return result.append('"').toString();
    }

    private String tellErrors()
    {
        synchronized (errors)
        {
            errors.forEach((text) -> OUT.println(quoted(text)));
            return Integer.toString(errors.size());
        }
    }

    /** replay ID POSITION LENGTH messages|fragments [each]: -1 is the recording's start, and what there is. */
    private String replay(final long recordingId, final String[] words)
    {
        final long asked = Long.parseLong(words[2]);
        final long begin = asked < 0 ? archive.getStartPosition(recordingId) : asked;
        final long length = Long.parseLong(words[3]);
        final long end = length < 0 ? archive.getMaxRecordedPosition(recordingId) : begin + length;
        final Replayed replayed = new Replayed(words.length > 5);
        if (end == begin)
        {
            return replayed.summary(begin, end);
        }
        final FragmentHandler handler =
            words[4].equals("messages") ? new FragmentAssembler(replayed, 1 << 16) : replayed;
        try (Subscription subscription = archive.replay(
            recordingId, begin, end - begin, "aeron:ipc", REPLAY_STREAM))
        {
            await("the replay", subscription::isConnected);
            final Image image = subscription.imageAtIndex(0);
            long deadline = System.nanoTime() + WAIT_NS;
            while (image.position() < end)
            {
                if (image.poll(handler, 64) > 0)
                {
                    deadline = System.nanoTime() + WAIT_NS;
                    continue;
                }
                archive.checkForErrorResponse();
                final boolean isOver = image.isClosed() || image.isEndOfStream();
                // Padding moves the position without a fragment.
                if (image.position() < end && (isOver || System.nanoTime() - deadline > 0))
                {
                    throw new IllegalStateException("the replay ended at " + image.position() + ", before " + end);
                }
                Thread.yield();
            }
            return replayed.summary(begin, image.position());
        }
    }

    /** Counts what is replayed, and prints a line of each where that is wanted. */
    private static final class Replayed implements FragmentHandler
    {
        private final boolean printsEach;
        private final CRC32 all = new CRC32();
        private final CRC32 one = new CRC32();
        private final ByteBuffer row = ByteBuffer.allocate(16).order(ByteOrder.LITTLE_ENDIAN);
        private long count;
        private long bytes;

        private Replayed(final boolean printsEach)
        {
            this.printsEach = printsEach;
        }

        public void onFragment(final DirectBuffer buffer, final int offset, final int length, final Header header)
        {
            final byte[] payload = new byte[length];
            buffer.getBytes(offset, payload);
            one.reset();
            one.update(payload);
            row.clear();
            row.putInt(length).putInt((int)one.getValue()).putLong(header.reservedValue());
            all.update(row.array());
            count++;
            bytes += length;
            if (printsEach)
            {
                OUT.println("m " + header.position() + " " + length + " " + one.getValue() + " " +
                    header.reservedValue() + " " + (header.flags() & 0xFF) + " " + header.termId() + " " +
                    header.termOffset());
            }
        }

        private String summary(final long begin, final long end)
        {
            return count + " " + bytes + " " + all.getValue() + " " + begin + " " + end;
        }
    }
}
