import io.aeron.ChannelUri;
import io.aeron.Counter;
import io.aeron.ExclusivePublication;
import io.aeron.Image;
import io.aeron.Publication;
import io.aeron.Subscription;
import io.aeron.archive.client.AeronArchive;
import io.aeron.archive.client.ReplayParams;
import io.aeron.archive.codecs.RecordingSignal;
import io.aeron.archive.codecs.SourceLocation;
import io.aeron.archive.status.RecordingPos;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.StringJoiner;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.LongConsumer;

/** Record, replay, list, purge. */
final class BasicScenarios
{
    private static final int SMALL = 100;

    static void declare(final ScenarioPeer.Scenarios all)
    {
        all.of("open", "BasicArchiveTest");
        all.add("a recording is replayed, then truncated to its start", BasicScenarios::replayThenTruncate);
        all.add("a channel of 2,000 characters is kept", BasicScenarios::jumboChannel);
        all.add("a recording is purged", BasicScenarios::purge);
        all.add("an active recording is not purged", BasicScenarios::purgeActive);
        all.add("a recording that is replayed is not purged", BasicScenarios::purgeReplayed);
        all.add("a replay is stopped before anybody came", BasicScenarios::cancel);
        all.add("an active recording is replayed from its end on", BasicScenarios::joinLate);
        all.add("the last matching recording is found, or none", BasicScenarios::findLast);
        all.add("a bounded replay goes as far as its counter", BasicScenarios::bounded);
        all.add("a replay with reads shorter than the MTU is refused", BasicScenarios::shortReads);
        all.add("a purged recording is not listed", BasicScenarios::purgedIsNotListed);
        all.add("recordings are purged and listed in turn", BasicScenarios::shake);
        all.add("a replay is stopped before its end", (lab) -> stopped(lab, lab.archive()::stopReplay));
        all.add("all replays are stopped before their end",
            (lab) -> stopped(lab, (id) -> lab.archive().stopAllReplays(RecordingPos.NULL_RECORDING_ID)));
    }

    /** A stream over UDP with a reader beside the recording; {@code then} runs while it is active. */
    private static Lab.Recorded recorded(final Lab lab, final String alias, final ScenarioPeer.Body then) throws Exception
    {
        final String channel = Lab.udp() + "|term-length=64k|alias=" + alias;
        final int streamId = Lab.nextStream();
        final long subscriptionId = lab.start(channel, streamId);
        final Lab.Recorded found;
        try (Subscription reader = lab.aeron.addSubscription(channel, streamId);
            Publication publication = lab.aeron.addPublication(channel, streamId))
        {
            final int counter = lab.counter(publication.sessionId());
            final long id = RecordingPos.getRecordingId(lab.aeron.countersReader(), counter);
            Lab.await("the reader", reader::isConnected); // which the publication does not wait for
            lab.note("source", RecordingPos.getSourceIdentity(lab.aeron.countersReader(), counter));
            lab.offer(publication, 0, 10, SMALL);
            lab.consume(reader, 0, 10, SMALL);
            lab.awaitRecorded(id, publication.position());
            lab.notePositions(id);
            lab.note("joined at its start", reader.imageBySessionId(publication.sessionId()).joinPosition() ==
                lab.archive().getStartPosition(id));
            if (then != null)
            {
                then.run(lab);
            }
            found = new Lab.Recorded(
                id, streamId, publication.sessionId(), 0, publication.position(), publication.initialTermId());
        }
        lab.archive().stopRecording(subscriptionId);
        lab.awaitSignal(found.id(), RecordingSignal.STOP);
        lab.notePositions(found.id());
        lab.note("found", found.id() == lab.archive().findLastMatchingRecording(
            0, "alias=" + alias, streamId, found.sessionId()));
        return found;
    }

    private static void replayThenTruncate(final Lab lab) throws Exception
    {
        final Lab.Recorded recorded = recorded(lab, "basic", null);
        lab.note("stopped by identity", lab.archive().tryStopRecordingByIdentity(recorded.id()));
        final int streamId = Lab.nextStream();
        try (Subscription replay = lab.archive().replay(recorded.id(), 0, recorded.stop(), Lab.udp(), streamId))
        {
            lab.consume(replay, 0, 10, SMALL);
            lab.note("replayed to", replay.imageAtIndex(0).position());
        }
        lab.note("truncated", lab.archive().truncateRecording(recorded.id(), 0));
        lab.awaitSignal(recorded.id(), RecordingSignal.DELETE);
        final Lab.Descriptor left = lab.listed(recorded.id()).get(0);
        lab.note("left", left.start() + " to " + left.stop());
        lab.noteSignals(recorded.id());
    }

    private static void jumboChannel(final Lab lab) throws Exception
    {
        final Lab.Recorded recorded = recorded(lab, "alias" + "X".repeat(2000), null);
        final String channel = lab.listed(recorded.id()).get(0).channel();
        lab.note("alias", ChannelUri.parse(channel).get("alias").length());
    }

    private static void purge(final Lab lab) throws Exception
    {
        final Lab.Recorded recorded = recorded(lab, "purged", null);
        lab.note("files", lab.files(recorded.id()));
        lab.note("purged", lab.archive().purgeRecording(recorded.id()));
        lab.note("listed", lab.listed(recorded.id()).size());
        lab.awaitSignal(recorded.id(), RecordingSignal.DELETE);
        lab.note("files", lab.files(recorded.id()));
        lab.attempt("purge again", () -> lab.archive().purgeRecording(recorded.id()));
    }

    private static void purgeActive(final Lab lab) throws Exception
    {
        recorded(lab, "active", (same) ->
        {
            final long id = same.signals.get(0).recordingId();
            same.attempt("purge", () -> same.archive().purgeRecording(id));
            same.note("files", same.files(id));
        });
    }

    private static void purgeReplayed(final Lab lab)
    {
        final Lab.Recorded recorded = lab.record(Lab.IPC, Lab.nextStream(), 3 * Lab.SEGMENT);
        try (Subscription replay = lab.archive().replay(recorded.id(), 0, recorded.stop(), Lab.IPC, Lab.nextStream()))
        {
            Lab.await("the replay", replay::isConnected);
            lab.attempt("purge", () -> lab.archive().purgeRecording(recorded.id()));
            lab.note("files", lab.files(recorded.id()));
        }
    }

    private static void cancel(final Lab lab) throws Exception
    {
        final String channel = Lab.udp() + "|term-length=64k";
        final int streamId = Lab.nextStream();
        final Publication publication = lab.archive().addRecordedPublication(channel, streamId);
        final long id = lab.recordingOf(publication);
        lab.offer(publication, 0, 10, SMALL);
        lab.awaitRecorded(id, publication.position());
        lab.note("stopped by identity", lab.archive().tryStopRecordingByIdentity(id));
        lab.awaitSignal(id, RecordingSignal.STOP);
        lab.notePositions(id);
        final long replayId = lab.archive().startReplay(id, 0, publication.position(), Lab.udp(), Lab.nextStream());
        lab.archive().stopReplay(replayId);
        lab.attempt("stop it again", () ->
        {
            lab.archive().stopReplay(replayId);
            return "";
        });
    }

    private static void joinLate(final Lab lab) throws Exception
    {
        final String channel = Lab.udp() + "|term-length=64k";
        final int streamId = Lab.nextStream();
        final long subscriptionId = lab.start(channel, streamId);
        try (Subscription reader = lab.aeron.addSubscription(channel, streamId);
            Publication publication = lab.aeron.addPublication(channel, streamId))
        {
            final long id = lab.recordingOf(publication);
            Lab.await("the reader", reader::isConnected);
            lab.offer(publication, 0, 10, SMALL);
            lab.consume(reader, 0, 10, SMALL);
            final long position = publication.position();
            lab.awaitRecorded(id, position);
            try (Subscription replay = lab.archive().replay(
                id, position, AeronArchive.NULL_LENGTH, Lab.udp(), Lab.nextStream()))
            {
                lab.offer(publication, 10, 10, SMALL);
                lab.consume(reader, 10, 10, SMALL);
                lab.consume(replay, 10, 10, SMALL);
                lab.note("joined at", replay.imageAtIndex(0).joinPosition());
                lab.note("replayed to", replay.imageAtIndex(0).position());
            }
        }
        lab.archive().stopRecording(subscriptionId);
    }

    private static void findLast(final Lab lab) throws Exception
    {
        final int streamId = Lab.nextStream();
        final Publication publication = lab.archive().addRecordedPublication(Lab.IPC, streamId);
        final long id = lab.recordingOf(publication);
        final int sessionId = publication.sessionId();
        final String whole = ChannelUri.addSessionId(Lab.IPC, sessionId);
        lab.note("by its channel", lab.archive().findLastMatchingRecording(0, whole, streamId, sessionId) == id);
        lab.note("from a later one on",
            lab.archive().findLastMatchingRecording(id + 1, whole, streamId, sessionId));
        lab.note("another session", lab.archive().findLastMatchingRecording(0, whole, streamId, sessionId + 1));
        lab.note("another stream", lab.archive().findLastMatchingRecording(0, whole, streamId + 1, sessionId));
        lab.note("another channel", lab.archive().findLastMatchingRecording(0, "udp", streamId, sessionId));
        lab.attempt("from a negative id on",
            () -> lab.archive().findLastMatchingRecording(-2, whole, streamId, sessionId));
    }

    private static void bounded(final Lab lab) throws Exception
    {
        final Lab.Recorded recorded = lab.record(Lab.IPC, Lab.nextStream(), 40 << 10);
        final Counter limit = lab.opened(lab.aeron.addCounter(10_000, "limit of a replay"));
        limit.setRelease(0);
        final int streamId = Lab.nextStream();
        final String channel = Lab.udp();
        final ReplayParams params = new ReplayParams()
            .position(0).length(Long.MAX_VALUE).boundingLimitCounterId(limit.id());
        final long replayId = lab.archive().startReplay(recorded.id(), channel, streamId, params);
        try (Subscription replay = lab.aeron.addSubscription(
            ChannelUri.addSessionId(channel, (int)replayId), streamId))
        {
            Lab.await("the replay", replay::isConnected);
            final Image image = replay.imageAtIndex(0);
            for (final int position : new int[]{ 0, 20 << 10, 30 << 10 })
            {
                limit.setRelease(position);
                Lab.await("the limit", () ->
                {
                    image.poll((buffer, offset, length, header) -> {}, 20);
                    return image.position() >= position;
                });
                lab.note("no further than " + position, Lab.stays(150, () ->
                {
                    image.poll((buffer, offset, length, header) -> {}, 20);
                    return image.position() <= position;
                }));
            }
        }
    }

    private static void shortReads(final Lab lab)
    {
        final Lab.Recorded recorded = lab.record(Lab.IPC, Lab.nextStream(), 4096);
        final int mtu = lab.listed(recorded.id()).get(0).mtu();
        lab.attempt("replay", () -> lab.archive().startReplay(
            recorded.id(), "aeron:ipc", Lab.nextStream(), new ReplayParams().fileIoMaxLength(mtu - 1)));
    }

    private static List<Long> ids(final Lab lab, final long from, final int count)
    {
        final List<Long> found = new ArrayList<>();
        lab.archive().listRecordings(from, count, (session, correlation, id, startTime, stopTime, start, stop,
            initialTermId, segmentBytes, termBytes, mtu, sessionId, streamId, stripped, channel, source) ->
            found.add(id));
        return found;
    }

    private static List<Long> ids(final Lab lab, final String fragment, final int ofStream)
    {
        final List<Long> found = new ArrayList<>();
        lab.archive().listRecordingsForUri(0, 100, fragment, ofStream, (session, correlation, id, startTime, stopTime,
            start, stop, initialTermId, segmentBytes, termBytes, mtu, sessionId, streamId, stripped, channel, source) ->
            found.add(id));
        return found;
    }

    private static void purgedIsNotListed(final Lab lab)
    {
        final int streamId = Lab.nextStream();
        final List<Long> made = new ArrayList<>();
        for (int i = 0; i < 3; i++)
        {
            made.add(lab.record(Lab.IPC, streamId, 1024).id());
        }
        final long first = made.get(0);
        lab.note("all", ids(lab, first, 100).equals(made));
        lab.note("all, by channel", ids(lab, "ipc", streamId).equals(made));
        final long purged = made.remove(1);
        lab.note("purged", lab.archive().purgeRecording(purged));
        lab.note("itself", lab.listed(purged).size());
        lab.note("the others", lab.listed(made.get(0)).size() + " " + lab.listed(made.get(1)).size());
        lab.note("without it", ids(lab, first, 100).equals(made));
        lab.note("without it, by channel", ids(lab, "ipc", streamId).equals(made));
    }

    private static void shake(final Lab lab)
    {
        final int many = 40;
        final int streamId = Lab.nextStream();
        final long subscriptionId = lab.start("aeron:ipc", streamId);
        final Map<Long, Integer> sessions = new HashMap<>();
        for (int i = 0; i < many; i++)
        {
            final ExclusivePublication publication = lab.opened(lab.aeron.addExclusivePublication(Lab.IPC, streamId));
            sessions.put(lab.recordingOf(publication), publication.sessionId());
        }
        lab.archive().stopRecording(subscriptionId);
        for (final long id : sessions.keySet())
        {
            lab.awaitSignal(id, RecordingSignal.STOP);
        }
        final List<Long> left = new ArrayList<>(sessions.keySet());
        left.sort(null);
        final StringJoiner counts = new StringJoiner(" ");
        final Random random = new Random(42);
        boolean isListed = true;
        for (int i = 0; i < 20; i++)
        {
            final long victim = left.remove(random.nextInt(left.size()));
            lab.archive().purgeRecording(victim);
            isListed &= lab.listed(victim).isEmpty();
            final int from = random.nextInt(left.size());
            final int count = random.nextInt(left.size()) + 1;
            final List<Long> found = ids(lab, left.get(from), count);
            isListed &= found.equals(left.subList(from, Math.min(from + count, left.size())));
            counts.add(Integer.toString(found.size()));
        }
        lab.note("listed", counts);
        lab.note("each list has what is left", isListed);
    }

    private static void stopped(final Lab lab, final LongConsumer stop) throws Exception
    {
        final Lab.Recorded recorded = lab.record(Lab.IPC, Lab.nextStream(), 4 * Lab.SEGMENT);
        final String channel = Lab.udp();
        final int streamId = Lab.nextStream();
        final long replayId = lab.archive().startReplay(recorded.id(), 0, Long.MAX_VALUE, channel, streamId);
        final AtomicBoolean isGone = new AtomicBoolean();
        try (Subscription replay = lab.aeron.addSubscription(
            ChannelUri.addSessionId(channel, (int)replayId), streamId, null, (image) -> isGone.set(true)))
        {
            Lab.await("the replay", replay::isConnected);
            final Image image = replay.imageAtIndex(0);
            final int[] count = { 0 };
            Lab.await("five messages", () ->
            {
                image.poll((buffer, offset, length, header) -> count[0]++, 1);
                return count[0] >= 5;
            });
            stop.accept(replayId);
            final long begin = System.nanoTime();
            Lab.await("the image to go", isGone::get);
            lab.note("gone before the image's liveness timeout", System.nanoTime() - begin < 5_000_000_000L);
        }
    }
}
