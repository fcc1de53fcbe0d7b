import io.aeron.ChannelUri;
import io.aeron.CommonContext;
import io.aeron.ExclusivePublication;
import io.aeron.Image;
import io.aeron.Publication;
import io.aeron.Subscription;
import io.aeron.archive.client.AeronArchive;
import io.aeron.archive.client.ReplayParams;
import io.aeron.archive.codecs.RecordingSignal;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;

/** How replays end, and lists by channel. */
final class ReplayScenarios
{
    static void declare(final ScenarioPeer.Scenarios all)
    {
        all.of("open", "ArchiveReplayTest");
        all.add("a replay whose subscriber has left is stopped", ReplayScenarios::left);
        all.add("all of an empty recording is not replayed", ReplayScenarios::empty);
        all.add("a replay of all there is of an active recording ends", ReplayScenarios::activeToItsEnd);
        all.add("all of an empty active recording is not replayed", ReplayScenarios::emptyActive);
        all.add("a replay that follows an empty active recording goes on", ReplayScenarios::followEmpty);
        all.of("open", "ArchiveListRecordingsTest");
        all.add("recordings are listed by a part of their channel", ReplayScenarios::byChannel);
        all.add("the channel of a recording is changed", ReplayScenarios::changed);
        all.add("the channel of an unknown recording is not changed", ReplayScenarios::changeUnknown);
        all.add("no channel is changed during a list", ReplayScenarios::changeDuringList);
    }

    private static ReplayParams all(final long length)
    {
        return new ReplayParams().position(AeronArchive.NULL_POSITION).length(length);
    }

    private static void left(final Lab lab)
    {
        final Lab.Recorded recorded = lab.record(Lab.IPC, Lab.nextStream(), 2 * Lab.SEGMENT);
        final int streamId = Lab.nextStream();
        final long replayId = lab.archive().startReplay(recorded.id(), "aeron:ipc", streamId, new ReplayParams());
        final Subscription replay = lab.aeron.addSubscription(
            ChannelUri.addSessionId("aeron:ipc", (int)replayId), streamId);
        final long[] position = { 0 };
        Lab.await("half of it", () ->
        {
            replay.poll((buffer, offset, length, header) -> position[0] = header.position(), 10);
            lab.archive().checkForErrorResponse();
            return position[0] >= recorded.stop() / 2;
        });
        replay.close();
        lab.attempt("stop it", () ->
        {
            lab.archive().stopReplay(replayId);
            return "";
        });
        lab.note("error", lab.archive().pollForErrorResponse());
    }

    private static void empty(final Lab lab)
    {
        final Lab.Recorded recorded = lab.record(Lab.IPC, Lab.nextStream(), 0);
        lab.notePositions(recorded.id());
        lab.attempt("replay", () -> lab.archive().startReplay(
            recorded.id(), "aeron:ipc", Lab.nextStream(), all(AeronArchive.REPLAY_ALL_AND_STOP)));
    }

    private static void emptyActive(final Lab lab)
    {
        final Publication publication = lab.archive().addRecordedPublication("aeron:ipc", Lab.nextStream());
        final long id = lab.recordingOf(publication);
        lab.notePositions(id);
        lab.attempt("replay", () -> lab.archive().startReplay(
            id, "aeron:ipc", Lab.nextStream(), all(AeronArchive.REPLAY_ALL_AND_STOP)));
    }

    private static void activeToItsEnd(final Lab lab)
    {
        final Publication publication = lab.archive().addRecordedPublication(Lab.IPC, Lab.nextStream());
        final long id = lab.recordingOf(publication);
        lab.offer(publication, 0, 1, 22);
        lab.awaitRecorded(id, publication.position());
        final int streamId = Lab.nextStream();
        final long replayId = lab.archive().startReplay(
            id, "aeron:ipc", streamId, all(AeronArchive.REPLAY_ALL_AND_STOP));
        final AtomicReference<Image> gone = new AtomicReference<>();
        try (Subscription replay = lab.aeron.addSubscription(
            ChannelUri.addSessionId("aeron:ipc", (int)replayId), streamId, null, gone::set))
        {
            Lab.await("the replay", replay::isConnected);
            final Image image = replay.imageAtIndex(0);
            Lab.await("its end", () ->
            {
                image.poll((buffer, offset, length, header) -> {}, 100);
                lab.archive().checkForErrorResponse();
                return image.isEndOfStream();
            });
            lab.note("ended at", image.position());
            Lab.await("the image to go", () -> gone.get() == image);
        }
        lab.notePositions(id);
    }

    private static void followEmpty(final Lab lab)
    {
        final Publication publication = lab.archive().addRecordedPublication(Lab.IPC, Lab.nextStream());
        final long id = lab.recordingOf(publication);
        final int streamId = Lab.nextStream();
        final long replayId = lab.archive().startReplay(
            id, "aeron:ipc", streamId, all(AeronArchive.REPLAY_ALL_AND_FOLLOW));
        try (Subscription replay = lab.aeron.addSubscription(
            ChannelUri.addSessionId("aeron:ipc", (int)replayId), streamId))
        {
            Lab.await("the replay", replay::isConnected);
            final Image image = replay.imageAtIndex(0);
            lab.note("goes on", Lab.stays(300, () ->
            {
                lab.archive().checkForErrorResponse();
                return !image.isEndOfStream() && !image.isClosed();
            }));
            lab.offer(publication, 0, 3, 100);
            lab.consume(replay, 0, 3, 100);
            lab.note("followed to", image.position());
        }
        lab.archive().stopReplay(replayId);
    }

    private static List<String> channels(final Lab lab, final String fragment, final int streamId)
    {
        final List<String> found = new ArrayList<>();
        lab.archive().listRecordingsForUri(0, Integer.MAX_VALUE, fragment, streamId, (session, correlation, id,
            startTime, stopTime, start, stop, initialTermId, segmentBytes, termBytes, mtu, sessionId, stream, stripped,
            channel, source) -> found.add(channel));
        return found;
    }

    private static void byChannel(final Lab lab)
    {
        final int streamId = Lab.nextStream();
        lab.record(Lab.IPC + "|alias=snapshot:10;complete=true;", streamId, 1024);
        for (final String fragment : new String[]{ "alias=snapshot:10;", "alias=snapshot:1;", "alias=snapshot:1", "" })
        {
            lab.note("'" + fragment + "'", channels(lab, fragment, streamId).size());
        }
        lab.note("other stream", channels(lab, "snapshot", streamId + 1000).size());
    }

    private static String withAlias(final String channel, final String alias)
    {
        final ChannelUri uri = ChannelUri.parse(channel);
        uri.put(CommonContext.ALIAS_PARAM_NAME, alias);
        return uri.toString();
    }

    private static void changed(final Lab lab)
    {
        final int streamId = Lab.nextStream();
        final Lab.Recorded recorded = lab.record(Lab.IPC + "|alias=in-progress:10;", streamId, 1024);
        final String channel = channels(lab, "in-progress:", streamId).get(0);
        for (final String alias : new String[]{ "done:10;", "a-longer-alias-than-the-one-before:10;", "x" })
        {
            lab.archive().updateChannel(recorded.id(), withAlias(channel, alias));
            final List<String> found = channels(lab, alias, streamId);
            lab.note("listed as " + alias, found.size() == 1 && found.get(0).contains("alias=" + alias));
        }
        lab.note("listed as before", channels(lab, "in-progress:", streamId).size());
        lab.note("replayed", lab.replayed(recorded, 0, 1024));
    }

    private static void changeUnknown(final Lab lab)
    {
        lab.attempt("change", () ->
        {
            lab.archive().updateChannel(98_273_498_273_498_723L, Lab.IPC);
            return "";
        });
    }

    private static void changeDuringList(final Lab lab)
    {
        final int streamId = Lab.nextStream();
        final String channel = "aeron:ipc?alias=" + "x".repeat(500);
        final long subscriptionId = lab.start(channel, streamId);
        long last = -1;
        for (int i = 0; i < 60; i++) // their descriptors are more than fits into the responses' window
        {
            final ExclusivePublication publication = lab.opened(lab.aeron.addExclusivePublication(Lab.IPC, streamId));
            last = lab.recordingOf(publication);
        }
        lab.archive().stopRecording(subscriptionId);
        lab.awaitSignal(last, RecordingSignal.STOP);
        final long changed = last;
        lab.note("asked", lab.archive().archiveProxy().listRecordings(
            0, Integer.MAX_VALUE, lab.aeron.nextCorrelationId(), lab.archive().controlSessionId()));
        lab.attempt("change", () ->
        {
            lab.archive().updateChannel(changed, Lab.IPC);
            return "";
        });
        final List<String> found = new ArrayList<>();
        try (AeronArchive other = AeronArchive.connect(lab.local()))
        {
            other.listRecordingsForUri(0, 100, "xxx", streamId, (session, correlation, id, startTime, stopTime, start,
                stop, initialTermId, segmentBytes, termBytes, mtu, sessionId, stream, stripped, original, source) ->
                found.add(original));
        }
        lab.note("still there", found.size());
    }
}
