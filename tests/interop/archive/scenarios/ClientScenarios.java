import io.aeron.Aeron;
import io.aeron.ChannelUri;
import io.aeron.Counter;
import io.aeron.ExclusivePublication;
import io.aeron.Subscription;
import io.aeron.archive.client.AeronArchive;
import io.aeron.archive.client.ReplayParams;
import org.agrona.concurrent.status.CountersReader;

/** Clients that are abandoned, and answers over response channels. */
final class ClientScenarios
{
    private static final long END = 40 << 10;

    static void declare(final ScenarioPeer.Scenarios all)
    {
        all.of("open", "ArchiveAbandonedClientTest");
        all.add("a client that never reads holds up nobody, over IPC",
            (lab) -> abandoned(lab, lab.local(), lab.local()));
        all.add("a client that never reads holds up nobody, over UDP",
            (lab) -> abandoned(lab, lab.remote(Lab.udp()), lab.remote(Lab.udp())));
        all.add("a client that never reads holds up nobody, over response channels",
            (lab) -> abandoned(lab, lab.remote(response()), lab.remote(response())));
        all.of("open", "ArchiveResponseClientTest");
        all.add("a replay comes over a response channel", (lab) -> replay(lab, false));
        all.add("a bounded replay comes over a response channel", (lab) -> replay(lab, true));
        all.add("a replay is started over a response channel", (lab) -> startReplay(lab, false));
        all.add("a bounded replay is started over a response channel", (lab) -> startReplay(lab, true));
        all.add("a client connects over a response channel, step by step", (lab) -> connect(lab, response()));
        all.add("a client connects over UDP, step by step", (lab) -> connect(lab, Lab.udp()));
        all.add("a client connects over an IPC response channel", ClientScenarios::overIpc);
    }

    private static String response() throws Exception
    {
        return "aeron:udp?control-mode=response|control=" + Lab.endpoint();
    }

    /** One of two clients never reads; the other asks until its answers have filled a whole term. */
    private static void abandoned(
        final Lab lab, final AeronArchive.Context reading, final AeronArchive.Context silent) throws Exception
    {
        final AeronArchive reader = lab.opened(AeronArchive.connect(reading));
        final AeronArchive other = lab.opened(AeronArchive.connect(silent));
        lab.note("the same archive", reader.archiveId() == other.archiveId());
        final ExclusivePublication publication = lab.opened(
            reader.addRecordedExclusivePublication("aeron:ipc?ssc=true|term-length=128k", Lab.nextStream()));
        final long id = lab.recordingOf(publication);
        final CountersReader counters = lab.aeron.countersReader();
        final int own = reader.controlResponsePoller().subscription().imageAtIndex(0).subscriberPositionId();
        final int others = other.controlResponsePoller().subscription().imageAtIndex(0).subscriberPositionId();
        int asked = 0;
        while (counters.getCounterValue(own) < Lab.TERM)
        {
            if (asked++ % 50 == 0)
            {
                lab.offer(publication, asked, 1, 500);
            }
            reader.getMaxRecordedPosition(id);
        }
        final long position = publication.position();
        Lab.await("the recording", () -> reader.getMaxRecordedPosition(id) == position);
        lab.note("a whole term of answers was read", true);
        lab.note("the other is behind, or gone",
            counters.getCounterState(others) != CountersReader.RECORD_ALLOCATED ||
            counters.getCounterValue(others) < counters.getCounterValue(own));
    }

    private static AeronArchive connected(final Lab lab) throws Exception
    {
        return lab.opened(AeronArchive.connect(lab.remote(response())));
    }

    private static void readTo(final Lab lab, final AeronArchive archive, final Subscription replay, final long end)
    {
        final long[] position = { 0 };
        Lab.await("the replay", () ->
        {
            replay.poll((buffer, offset, length, header) -> position[0] = header.position(), 10);
            archive.checkForErrorResponse();
            return position[0] >= end;
        });
        lab.note("no further", Lab.stays(100, () ->
        {
            replay.poll((buffer, offset, length, header) -> position[0] = header.position(), 10);
            return position[0] <= end;
        }));
        lab.note("replayed to", position[0]);
    }

    private static ReplayParams limited(final Lab lab, final boolean isBounded)
    {
        final ReplayParams params = new ReplayParams();
        if (isBounded)
        {
            final Counter limit = lab.opened(lab.aeron.addCounter(10_001, "limit of a replay"));
            limit.setRelease(END / 2);
            params.boundingLimitCounterId(limit.id());
        }
        return params;
    }

    private static void replay(final Lab lab, final boolean isBounded) throws Exception
    {
        final Lab.Recorded recorded = lab.record(Lab.IPC, Lab.nextStream(), END);
        final AeronArchive archive = connected(lab);
        final Subscription replay = lab.opened(
            archive.replay(recorded.id(), response(), Lab.nextStream(), limited(lab, isBounded)));
        readTo(lab, archive, replay, isBounded ? END / 2 : END);
    }

    private static void startReplay(final Lab lab, final boolean isBounded) throws Exception
    {
        final Lab.Recorded recorded = lab.record(Lab.IPC, Lab.nextStream(), END);
        final AeronArchive archive = connected(lab);
        final String channel = response();
        final int streamId = Lab.nextStream();
        final Subscription replay = lab.opened(lab.aeron.addSubscription(channel, streamId));
        final ReplayParams params = limited(lab, isBounded);
        params.subscriptionRegistrationId(replay.registrationId());
        archive.startReplay(recorded.id(), channel, streamId, params);
        readTo(lab, archive, replay, isBounded ? END / 2 : END);
    }

    private static void connect(final Lab lab, final String responses)
    {
        try (AeronArchive.AsyncConnect connecting = AeronArchive.asyncConnect(lab.remote(responses)))
        {
            final AeronArchive[] found = { null };
            Lab.await("the session", () -> (found[0] = connecting.poll()) != null);
            lab.opened(found[0]);
            lab.note("has a session", found[0].controlSessionId() != Aeron.NULL_VALUE);
            lab.note("the archive's id", found[0].archiveId() == lab.archive().archiveId());
            lab.note("state", found[0].state());
        }
    }

    private static void overIpc(final Lab lab)
    {
        final AeronArchive.Context context = lab.local().controlResponseChannel("aeron:ipc?control-mode=response");
        final AeronArchive archive = lab.opened(AeronArchive.connect(context));
        final ChannelUri request = ChannelUri.parse(archive.context().controlRequestChannel());
        lab.note("the request names the subscription",
            Long.toString(archive.controlResponsePoller().subscription().registrationId())
            .equals(request.get("response-correlation-id")));
        lab.note("the archive's id", archive.archiveId() == lab.archive().archiveId());
    }
}
