import io.aeron.Aeron;
import io.aeron.ChannelUri;
import io.aeron.ExclusivePublication;
import io.aeron.Publication;
import io.aeron.Subscription;
import io.aeron.archive.client.AeronArchive;
import io.aeron.archive.client.ArchiveException;
import io.aeron.archive.codecs.RecordingSignal;
import io.aeron.archive.codecs.SourceLocation;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;

/** Recordings that go on. */
final class ExtendScenarios
{
    private static final int SMALL = 100;

    /** How a publication is added. */
    private interface Adding
    {
        Publication add(Aeron aeron, String channel, int streamId);
    }

    static void declare(final ScenarioPeer.Scenarios all)
    {
        all.of("open", "ExtendRecordingTest");
        all.add("a recording of an exclusive publication is extended",
            (lab) -> extend(lab, Aeron::addExclusivePublication));
        all.add("a recording of a shared publication is extended", (lab) -> extend(lab, Aeron::addPublication));
        all.add("a recording is truncated within a term, and extended there", ExtendScenarios::fromWithinATerm);
        all.add("of three clients at once one extends", ExtendScenarios::atOnce);
        all.add("an active recording is not extended", ExtendScenarios::active);
        all.add("a stream that does not join is not recorded", ExtendScenarios::apart);
    }

    private static void extend(final Lab lab, final Adding adding) throws Exception
    {
        final String address = Lab.udp();
        final int streamId = Lab.nextStream();
        final String channel = address + "|term-length=64k|mtu=1408|alias=extended";
        final long id;
        final int initialTermId;
        final long stop;
        try (Publication publication = adding.add(lab.aeron, channel, streamId);
            Subscription reader = lab.aeron.addSubscription(channel, streamId))
        {
            final long subscriptionId = lab.start(channel, streamId);
            id = lab.recordingOf(publication);
            Lab.await("the reader", reader::isConnected); // which the publication does not wait for
            lab.offer(publication, 0, 10, SMALL);
            lab.consume(reader, 0, 10, SMALL);
            stop = publication.position();
            initialTermId = publication.initialTermId();
            lab.awaitRecorded(id, stop);
            lab.archive().stopRecording(subscriptionId);
            lab.awaitSignal(id, RecordingSignal.STOP);
        }
        lab.noteSignals(id);
        lab.note("listed", lab.listed(id).get(0).stop());
        final String further = Lab.at(address + "|mtu=1408|alias=extended", stop, initialTermId, Lab.TERM);
        final long end;
        try (Subscription reader = lab.aeron.addSubscription(address, streamId);
            Publication publication = adding.add(lab.aeron, further, streamId))
        {
            final long subscriptionId = lab.archive().extendRecording(id, address, streamId, SourceLocation.LOCAL);
            lab.awaitSignal(id, RecordingSignal.EXTEND);
            Lab.await("the reader", reader::isConnected);
            lab.offer(publication, 10, 10, SMALL);
            lab.consume(reader, 10, 10, SMALL);
            end = publication.position();
            lab.awaitRecorded(id, end);
            lab.notePositions(id);
            lab.archive().stopRecording(subscriptionId);
            lab.awaitSignal(id, RecordingSignal.STOP);
        }
        lab.noteSignals(id);
        try (Subscription replay = lab.archive().replay(id, 0, end, Lab.udp(), Lab.nextStream()))
        {
            lab.consume(replay, 0, 20, SMALL);
            lab.note("replayed to", replay.imageAtIndex(0).position());
        }
    }

    private static void fromWithinATerm(final Lab lab)
    {
        final int streamId = Lab.nextStream();
        final String channel = "aeron:ipc?ssc=true|term-length=64k";
        final Lab.Recorded recorded = lab.record(channel, streamId, 300 << 10);
        final long position = Lab.TERM + 9 * 1024;
        lab.note("truncated", lab.archive().truncateRecording(recorded.id(), position));
        lab.awaitSignal(recorded.id(), RecordingSignal.DELETE);
        lab.signals.clear();
        final ExclusivePublication publication = lab.aeron.addExclusivePublication(
            Lab.at(channel, position, recorded.initialTermId(), Lab.TERM), streamId);
        lab.archive().extendRecording(recorded.id(), channel, streamId, SourceLocation.LOCAL, true);
        lab.awaitSignal(recorded.id(), RecordingSignal.EXTEND);
        Lab.await("a connection", publication::isConnected);
        lab.offerTo(publication, 2 * Lab.SEGMENT + 2048);
        lab.awaitRecorded(recorded.id(), publication.position());
        publication.close();
        lab.awaitSignal(recorded.id(), RecordingSignal.STOP);
        lab.noteSignals(recorded.id());
        lab.notePositions(recorded.id());
        lab.note("files", lab.files(recorded.id()));
        lab.note("replayed", lab.replayed(recorded, Lab.TERM, 2 * Lab.SEGMENT + 2048));
        lab.verify(recorded.id());
    }

    private static void atOnce(final Lab lab) throws Exception
    {
        final int streamId = Lab.nextStream();
        final String channel = "aeron:ipc?term-length=64k|mtu=1408|init-term-id=5|term-id=15|term-offset=1024";
        final Lab.Recorded recorded = lab.record(channel, streamId, 0);
        final CountDownLatch all = new CountDownLatch(3);
        final AtomicInteger done = new AtomicInteger();
        final List<String> refused = new ArrayList<>();
        final List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < 3; i++)
        {
            final AeronArchive client = lab.opened(AeronArchive.connect(lab.local().errorHandler(null)));
            final ExclusivePublication publication = lab.opened(lab.aeron.addExclusivePublication(channel, streamId));
            final String own = ChannelUri.addSessionId(channel, publication.sessionId());
            threads.add(new Thread(() ->
            {
                try
                {
                    all.countDown();
                    all.await();
                    client.extendRecording(recorded.id(), own, streamId, SourceLocation.LOCAL);
                    done.incrementAndGet();
                    // Its stream may come too late, after another's.
                    Lab.await("the others", () ->
                    {
                        client.checkForErrorResponse();
                        synchronized (refused)
                        {
                            return refused.size() == 2;
                        }
                    });
                }
                catch (final ArchiveException error)
                {
                    synchronized (refused)
                    {
                        refused.add(ArchiveException.errorCodeAsString(error.errorCode()));
                    }
                }
                catch (final Exception failure)
                {
                    synchronized (refused)
                    {
                        refused.add(failure.toString());
                    }
                }
            }));
        }
        threads.forEach(Thread::start);
        for (final Thread thread : threads)
        {
            thread.join();
        }
        lab.note("refused", refused);
        lab.note("is active", lab.archive().getRecordingPosition(recorded.id()));
        lab.note("somebody extended", done.get() > 0);
    }

    private static void active(final Lab lab)
    {
        final int streamId = Lab.nextStream();
        final ExclusivePublication publication = lab.archive().addRecordedExclusivePublication(Lab.IPC, streamId);
        final long id = lab.recordingOf(publication);
        final String further = Lab.at(
            Lab.IPC, publication.position(), publication.initialTermId(), publication.termBufferLength());
        lab.attempt("extend", () -> lab.archive().extendRecording(id, further, streamId, SourceLocation.LOCAL));
    }

    private static void apart(final Lab lab)
    {
        final int streamId = Lab.nextStream();
        final Lab.Recorded recorded = lab.record(Lab.IPC, streamId, 4096);
        final ExclusivePublication publication = lab.opened(lab.aeron.addExclusivePublication(
            Lab.at(Lab.IPC, 8192, recorded.initialTermId(), Lab.TERM), streamId));
        final String own = ChannelUri.addSessionId(Lab.IPC, publication.sessionId());
        lab.archive().extendRecording(recorded.id(), own, streamId, SourceLocation.LOCAL);
        final String[] text = { null };
        Lab.await("the refusal", () -> (text[0] = lab.archive().pollForErrorResponse()) != null);
        lab.note("refused", text[0].replaceAll("^.*error: ", "").replaceAll("-?\\d+", "N"));
        lab.notePositions(recorded.id());
    }
}
