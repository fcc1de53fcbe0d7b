import io.aeron.ExclusivePublication;
import io.aeron.Image;
import io.aeron.Publication;
import io.aeron.Subscription;
import io.aeron.archive.client.RecordingEventsAdapter;
import io.aeron.archive.client.RecordingEventsListener;
import io.aeron.archive.client.ReplayParams;
import io.aeron.logbuffer.FragmentHandler;
import io.aeron.FragmentAssembler;
import java.util.Arrays;
import java.util.Random;

/** Whole runs with recording events, on a stream that begins anywhere and has messages of any length. */
final class SystemScenarios
{
    private static final int MESSAGES = 2_000;
    private static final int INITIAL_TERM_ID = 1_031;

    /** What the recording events of one recording said. */
    private static final class Events implements RecordingEventsListener
    {
        private final int streamId;
        private long id = -1;
        private long start = -1;
        private long recorded = -1;
        private long stop = -1;
        private boolean isInOrder = true;
        private boolean isStopped;

        private Events(final int streamId)
        {
            this.streamId = streamId;
        }

        public void onStart(final long recordingId, final long position, final int sessionId, final int stream,
            final String channel, final String source)
        {
            if (stream == streamId)
            {
                isInOrder &= id < 0;
                id = recordingId;
                start = position;
                recorded = position;
            }
        }

        public void onProgress(final long recordingId, final long startPosition, final long position)
        {
            if (recordingId == id)
            {
                isInOrder &= startPosition == start && position > recorded && !isStopped;
                recorded = position;
            }
        }

        public void onStop(final long recordingId, final long startPosition, final long stopPosition)
        {
            if (recordingId == id)
            {
                isInOrder &= startPosition == start && !isStopped;
                isStopped = true;
                stop = stopPosition;
            }
        }
    }

    static void declare(final ScenarioPeer.Scenarios all)
    {
        for (final String group : new String[]{ "open", "dedicated" })
        {
            all.of(group, "ArchiveSystemTest");
            final String how = group.equals("open") ? "" : ", threads of their own";
            all.add("an exclusive publication is recorded, then replayed" + how, (lab) -> run(lab, true, false));
            all.add("an exclusive publication is replayed while it is recorded" + how, (lab) -> run(lab, true, true));
            all.add("a shared publication is recorded, then replayed" + how, (lab) -> run(lab, false, false));
        }
    }

    private static int[] lengths()
    {
        final Random random = new Random(20_000_101);
        final int[] found = new int[MESSAGES];
        Arrays.setAll(found, (i) -> 1 + random.nextInt(3_000));
        return found;
    }

    private static void run(final Lab lab, final boolean isExclusive, final boolean isWhile) throws Exception
    {
        final int streamId = Lab.nextStream();
        final long begin = 77 * (128L << 10) + 4_096;
        final String channel = isExclusive ?
            Lab.at(Lab.udp() + "|mtu=2048", begin, INITIAL_TERM_ID, 128 << 10) : Lab.udp() + "|term-length=128k|mtu=2048";
        final Events events = new Events(streamId);
        final Subscription told = lab.opened(lab.aeron.addSubscription(lab.place.get("events"), 30));
        Lab.await("the recording events", told::isConnected);
        final RecordingEventsAdapter adapter = new RecordingEventsAdapter(events, told, 10);
        final long subscriptionId = lab.start(channel, streamId);
        final Publication publication = lab.opened(isExclusive ?
            lab.aeron.addExclusivePublication(channel, streamId) : lab.aeron.addPublication(channel, streamId));
        Lab.await("the recording's start", () ->
        {
            adapter.poll();
            return events.id >= 0;
        });
        lab.note("started at", events.start);
        Lab.await("a connection", publication::isConnected);
        final int[] lengths = lengths();
        final Reading reading = isWhile ? new Reading(lab, events.id, lengths) : null;
        for (int i = 0; i < MESSAGES; i++)
        {
            lab.offer(publication, i, 1, lengths[i]);
            adapter.poll();
            if (isWhile)
            {
                reading.poll();
            }
        }
        final long end = publication.position();
        Lab.await("progress to the end", () ->
        {
            adapter.poll();
            return events.recorded == end;
        });
        lab.notePositions(events.id);
        if (isWhile)
        {
            reading.readAll();
            lab.note("replayed while it was recorded", reading.count + " to " + reading.image.position());
        }
        lab.archive().stopRecording(subscriptionId);
        Lab.await("the recording's stop", () ->
        {
            adapter.poll();
            return events.isStopped;
        });
        lab.note("stopped at the end", events.stop == end);
        lab.note("events in order", events.isInOrder);
        final Reading again = new Reading(lab, events.id, lengths);
        again.readAll();
        lab.note("replayed", again.count + " to " + again.image.position());
        if (isWhile)
        {
            Lab.await("the first replay's end", () -> reading.poll() == 0 && reading.image.isEndOfStream());
        }
        lab.verify(events.id);
    }

    /** A replay from the start on, whose messages must be those that were published. */
    private static final class Reading
    {
        private final int[] lengths;
        private final Subscription replay;
        private final Image image;
        private final FragmentHandler handler;
        private int count;

        private Reading(final Lab lab, final long id, final int[] lengths)
        {
            this.lengths = lengths;
            replay = lab.opened(lab.archive().replay(id, "aeron:ipc", Lab.nextStream(), new ReplayParams()));
            Lab.await("the replay", () ->
            {
                lab.archive().checkForErrorResponse();
                return replay.isConnected();
            });
            image = replay.imageAtIndex(0);
            handler = new FragmentAssembler((buffer, offset, length, header) ->
            {
                final byte[] payload = new byte[length];
                buffer.getBytes(offset, payload);
                if (!Arrays.equals(payload, Lab.message(count, this.lengths[count])))
                {
                    throw new IllegalStateException("message " + count + " is not what was published");
                }
                count++;
            });
        }

        private int poll()
        {
            return image.poll(handler, 20);
        }

        private void readAll()
        {
            Lab.await("all messages", () ->
            {
                poll();
                return count >= lengths.length;
            });
        }
    }
}
