import io.aeron.ExclusivePublication;
import io.aeron.archive.client.AeronArchive;
import io.aeron.archive.codecs.RecordingSignal;
import java.nio.file.Files;

/** Segments at a recording's beginning that are purged, detached, attached, deleted. */
final class HistoryScenarios
{
    private static final int STOP = 3 * Lab.SEGMENT + 1024;
    private static final int TERM_ID = 7;
    private static final long WITHIN_SEGMENT = 2 * Lab.TERM + 64;

    static void declare(final ScenarioPeer.Scenarios all)
    {
        all.of("open", "ManageRecordingHistoryTest");
        all.add("segments of an active recording are purged", (lab) -> purge(lab, 0, 2 * Lab.SEGMENT));
        all.add("segments of an active recording that began late are purged",
            (lab) -> purge(lab, 10 * Lab.SEGMENT + 7 * 32, 12 * Lab.SEGMENT));
        all.add("whole segments are detached and attached", (lab) -> detach(lab, 0, 2 * Lab.SEGMENT));
        all.add("segments are detached and attached, the start within one",
            (lab) -> detach(lab, Lab.TERM + 64, Lab.TERM + 2 * Lab.SEGMENT));
        all.add("whole detached segments are deleted", (lab) -> delete(lab, 0, 2 * Lab.SEGMENT));
        all.add("detached segments are deleted, the start within one",
            (lab) -> delete(lab, Lab.TERM + 64, Lab.TERM + 2 * Lab.SEGMENT));
        all.add("nothing was detached, nothing is deleted", (lab) -> deleteNothing(lab, 0));
        all.add("nothing was detached, the start within a segment, nothing is deleted",
            (lab) -> deleteNothing(lab, WITHIN_SEGMENT));
        all.add("a recording is purged with the files it should not have", HistoryScenarios::purgeAll);
        all.add("segments are attached, the start more than one read into the first", HistoryScenarios::farStart);
    }

    private static void purge(final Lab lab, final long start, final long newStart) throws Exception
    {
        final String channel = Lab.at(Lab.udp(), start, TERM_ID, Lab.TERM);
        final ExclusivePublication publication =
            lab.archive().addRecordedExclusivePublication(channel, Lab.nextStream());
        final long id = lab.recordingOf(publication);
        Lab.await("a connection", publication::isConnected);
        final long first = start - start % Lab.SEGMENT;
        lab.offerTo(publication, first + 5 * Lab.SEGMENT + 1024);
        lab.awaitRecorded(id, publication.position());
        lab.note("files", lab.files(id));
        lab.signals.clear();
        lab.note("purged", lab.archive().purgeSegments(id, newStart));
        lab.awaitSignal(id, RecordingSignal.DELETE);
        lab.noteSignals(id);
        lab.notePositions(id);
        lab.attempt("purge to the end", () -> lab.archive().purgeSegments(id, first + 6 * Lab.SEGMENT));
        final Lab.Recorded recorded = lab.stop(publication, id);
        lab.note("files", lab.files(id));
        lab.note("replayed", lab.replayed(recorded, recorded.start(), recorded.stop()));
    }

    private static Lab.Recorded recorded(final Lab lab, final long start, final long stop) throws Exception
    {
        final String channel = Lab.at(Lab.udp(), start, TERM_ID, Lab.TERM);
        final Lab.Recorded recorded = lab.record(channel, Lab.nextStream(), stop);
        lab.note("files", lab.files(recorded.id()));
        lab.signals.clear();
        return recorded;
    }

    private static void detach(final Lab lab, final long start, final long newStart) throws Exception
    {
        final Lab.Recorded recorded = recorded(lab, start, STOP);
        lab.archive().detachSegments(recorded.id(), newStart);
        lab.notePositions(recorded.id());
        lab.note("files", lab.files(recorded.id()));
        lab.note("attached", lab.archive().attachSegments(recorded.id()));
        lab.notePositions(recorded.id());
        lab.note("attached again", lab.archive().attachSegments(recorded.id()));
        lab.note("replayed", lab.replayed(recorded, start, recorded.stop()));
    }

    private static void delete(final Lab lab, final long start, final long newStart) throws Exception
    {
        final Lab.Recorded recorded = recorded(lab, start, STOP);
        lab.archive().detachSegments(recorded.id(), newStart);
        lab.note("deleted", lab.archive().deleteDetachedSegments(recorded.id()));
        lab.awaitSignal(recorded.id(), RecordingSignal.DELETE);
        lab.notePositions(recorded.id());
        lab.note("files", lab.files(recorded.id()));
        lab.note("attached", lab.archive().attachSegments(recorded.id()));
        lab.note("replayed", lab.replayed(recorded, newStart, recorded.stop()));
    }

    private static void deleteNothing(final Lab lab, final long start) throws Exception
    {
        final Lab.Recorded recorded = recorded(lab, start, start - start % Lab.SEGMENT + STOP);
        lab.note("deleted", lab.archive().deleteDetachedSegments(recorded.id()));
        lab.awaitSignal(recorded.id(), RecordingSignal.DELETE);
        lab.notePositions(recorded.id());
        lab.note("files", lab.files(recorded.id()));
    }

    private static void purgeAll(final Lab lab) throws Exception
    {
        final Lab.Recorded recorded = recorded(lab, 0, STOP);
        Files.createFile(lab.segment(recorded.id(), 4 * Lab.SEGMENT).toPath());
        Files.createFile(lab.file(recorded.id(), 5 * Lab.SEGMENT + ".rec.del").toPath());
        lab.note("purged", lab.archive().purgeRecording(recorded.id()));
        lab.awaitSignal(recorded.id(), RecordingSignal.DELETE);
        lab.noteSignals(recorded.id());
        lab.note("files", lab.files(recorded.id()));
        lab.note("listed", lab.listed(recorded.id()).size());
    }

    /** The archive reads 64 KiB at a time; the start is further into its segment. */
    private static void farStart(final Lab lab) throws Exception
    {
        final int term = 128 << 10;
        final long start = 2 * term + (64 << 10) + 32;
        final String channel = Lab.at(Lab.udp(), start, TERM_ID, term);
        final Lab.Recorded recorded = lab.record(channel, Lab.nextStream(), 4 * term + 1024);
        final long id = recorded.id();
        lab.archive().detachSegments(id, 3 * term);
        lab.note("start", lab.archive().getStartPosition(id));
        try (AeronArchive other = AeronArchive.connect(lab.local().messageTimeoutNs(1_500_000_000L)))
        {
            lab.attempt("attach", () -> other.attachSegments(id));
        }
        lab.note("start", lab.archive().getStartPosition(id));
        final long begin = lab.archive().getStartPosition(id);
        lab.note("replayed", lab.replayed(recorded, begin, recorded.stop()));
    }
}
