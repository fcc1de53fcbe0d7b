import io.aeron.ExclusivePublication;
import io.aeron.archive.codecs.RecordingSignal;
import io.aeron.archive.codecs.SourceLocation;
import java.io.IOException;
import java.nio.file.Files;

/** Segments that go from one recording to another. */
final class MigrateScenarios
{
    private static final int SEGMENT = Lab.SEGMENT;
    private static final int TERM_ID = 1337;
    private static final int MTU = 1408;

    /** What becomes of the empty file after a stopped recording that ends with its segment. */
    private enum Following
    {
        KEPT, TRUNCATED, TO_BE_DELETED
    }

    /** A recording that is made. */
    private record Shape(
        long start, long stop, Following following, boolean isActive, int streamId, int initialTermId, int mtu, int term)
    {
        private static Shape of(final long start, final long stop, final Following following)
        {
            return new Shape(start, stop, following, false, 0, TERM_ID, MTU, Lab.TERM);
        }

        /** It goes on in the next segment: while it is active, an archive may make the next file when it likes. */
        private Shape active()
        {
            return new Shape(start, stop + 1024, following, true, streamId, initialTermId, mtu, term);
        }

        private Shape stream(final int other)
        {
            return new Shape(start, stop, following, isActive, other, initialTermId, mtu, term);
        }

        private Shape termId(final int other)
        {
            return new Shape(start, stop, following, isActive, streamId, other, mtu, term);
        }

        private Shape frames(final int otherMtu)
        {
            return new Shape(start, stop, following, isActive, streamId, initialTermId, otherMtu, term);
        }

        private Shape terms(final int other)
        {
            return new Shape(start, stop, following, isActive, streamId, initialTermId, mtu, other);
        }
    }

    /** A recording that was made; its publication while it is active. */
    private record Made(Lab.Recorded recorded, ExclusivePublication publication) {}

    static void declare(final ScenarioPeer.Scenarios all)
    {
        all.of("open", "MigrateSegmentsTest");
        final Shape first = Shape.of(0, 2 * SEGMENT, Following.KEPT);
        final Shape second = Shape.of(2 * SEGMENT, 4 * SEGMENT, Following.KEPT);
        for (final Following following : Following.values())
        {
            final String name = following.name().toLowerCase().replace('_', ' ');
            final Shape before = Shape.of(0, 2 * SEGMENT, following);
            all.add("before another one, its last file " + name, (lab) -> migrate(lab, before, second));
            final Shape after = Shape.of(2 * SEGMENT, 4 * SEGMENT, following);
            final Shape truncated = Shape.of(0, 2 * SEGMENT, Following.TRUNCATED);
            all.add("after another one, its last file " + name, (lab) -> migrate(lab, after, truncated));
        }
        final Shape within = Shape.of(SEGMENT + 256, 2 * SEGMENT, Following.KEPT);
        all.add("before another one, the start within a segment", (lab) -> migrate(lab, within, second));
        all.add("before an active one", (lab) -> migrate(lab, first, second.active()));

        all.add("refused: other stream ids", (lab) -> refused(lab, first.stream(42), second.stream(1337)));
        all.add("refused: other initial term ids", (lab) -> refused(lab, first.termId(42), second));
        all.add("refused: other MTUs", (lab) -> refused(lab, first, second.frames(2 * MTU)));
        all.add("refused: other terms", (lab) -> refused(lab, first, second.terms(2 * Lab.TERM)));
        all.add("refused: an active source", (lab) -> refused(lab, first.active(), second));
        final Shape third = Shape.of(3 * SEGMENT, 4 * SEGMENT, Following.KEPT);
        all.add("refused: before another one, with a gap", (lab) -> refused(lab, first, third));
        final Shape one = Shape.of(0, SEGMENT, Following.TRUNCATED);
        all.add("refused: after another one, with a gap", (lab) -> refused(lab, third, one));
        final Shape toTerm = Shape.of(0, Lab.TERM, Following.TRUNCATED);
        final Shape fromTerm = Shape.of(Lab.TERM, 2 * SEGMENT, Following.KEPT);
        all.add("refused: the join at a term's beginning", (lab) -> refused(lab, toTerm, fromTerm));
        final Shape toFrame = Shape.of(0, 1024, Following.TRUNCATED);
        final Shape fromFrame = Shape.of(1024, 2 * SEGMENT, Following.KEPT);
        all.add("refused: the join within a term", (lab) -> refused(lab, toFrame, fromFrame));
        final Shape after = Shape.of(2 * SEGMENT, 3 * SEGMENT, Following.TRUNCATED);
        all.add("refused: after an active one", (lab) -> refused(lab, after, first.active()));
        all.add("after another one whose empty last file is there", (lab) -> refused(lab, after, first));
        final Shape long1 = Shape.of(0, 3 * SEGMENT, Following.TRUNCATED);
        final Shape long2 = Shape.of(3 * SEGMENT, 5 * SEGMENT, Following.KEPT);
        all.add("refused: before another one, a file is missing", (lab) -> missing(lab, long1, long2, SEGMENT));
        all.add("refused: before another one, a file is in the way", (lab) -> inTheWay(lab, long1, long2, SEGMENT));
        final Shape truncated = Shape.of(0, 2 * SEGMENT, Following.TRUNCATED);
        final Shape longAfter = Shape.of(2 * SEGMENT, 5 * SEGMENT, Following.TRUNCATED);
        all.add("refused: after another one, a file is missing",
            (lab) -> missing(lab, longAfter, truncated, 3 * SEGMENT));
        all.add("refused: after another one, a file is in the way",
            (lab) -> inTheWay(lab, longAfter, truncated, 3 * SEGMENT));
    }

    private static Made make(final Lab lab, final Shape shape, final int stream) throws IOException
    {
        final int streamId = shape.streamId() == 0 ? stream : stream + shape.streamId();
        final String channel = Lab.at(
            "aeron:ipc?mtu=" + shape.mtu(), shape.start(), shape.initialTermId(), shape.term());
        final ExclusivePublication publication = lab.opened(
            lab.archive().addRecordedExclusivePublication(channel, streamId));
        final long id = lab.recordingOf(publication);
        lab.offerTo(publication, shape.stop());
        lab.awaitRecorded(id, shape.stop());
        if (shape.isActive())
        {
            return new Made(
                new Lab.Recorded(id, streamId, 0, shape.start(), shape.stop(), shape.initialTermId()), publication);
        }
        final Lab.Recorded recorded = lab.stop(publication, id);
        switch (shape.following())
        {
            case TRUNCATED ->
            {
                lab.archive().truncateRecording(id, shape.stop());
                lab.awaitSignal(id, RecordingSignal.DELETE);
            }
            case TO_BE_DELETED -> Files.move(
                lab.segment(id, shape.stop()).toPath(), lab.file(id, shape.stop() + ".rec.del").toPath());
            case KEPT ->
            {
            }
        }
        lab.signals.clear();
        return new Made(recorded, null);
    }

    private static void migrate(final Lab lab, final Shape from, final Shape to) throws Exception
    {
        final int stream = Lab.nextStream();
        final Lab.Recorded source = make(lab, from, stream).recorded();
        final Made made = make(lab, to, stream);
        final Lab.Recorded target = made.recorded();
        final boolean isBefore = from.stop() <= to.start();
        final Lab.Recorded first = isBefore ? source : target;
        final Lab.Recorded second = isBefore ? target : source;
        lab.note("first", lab.replayed(first, first.start(), first.stop()));
        lab.note("second", lab.replayed(second, second.start(), second.stop()));
        lab.note("migrated", lab.archive().migrateSegments(source.id(), target.id()));
        lab.awaitSignal(source.id(), RecordingSignal.DELETE);
        lab.noteSignals(source.id());
        lab.notePositions(source.id());
        lab.notePositions(target.id());
        lab.note("files of the source", lab.files(source.id()));
        lab.note("files of the target", lab.files(target.id()));
        lab.note("replayed", lab.replayed(target, first.start(), second.stop()));
        extend(lab, source);
        if (made.publication() == null)
        {
            extend(lab, target);
        }
    }

    /** Both can go on. */
    private static void extend(final Lab lab, final Lab.Recorded recorded)
    {
        final long stop = lab.archive().getStopPosition(recorded.id());
        final String channel = Lab.at("aeron:ipc?mtu=" + MTU, stop, TERM_ID, Lab.TERM);
        final ExclusivePublication publication = lab.aeron.addExclusivePublication(channel, recorded.streamId());
        final String own = io.aeron.ChannelUri.addSessionId(channel, publication.sessionId());
        lab.signals.clear();
        lab.archive().extendRecording(recorded.id(), own, recorded.streamId(), SourceLocation.LOCAL);
        lab.awaitSignal(recorded.id(), RecordingSignal.EXTEND);
        lab.offerTo(publication, stop + SEGMENT + 1024);
        lab.awaitRecorded(recorded.id(), publication.position());
        lab.archive().stopRecording(own, recorded.streamId());
        lab.awaitSignal(recorded.id(), RecordingSignal.STOP);
        publication.close();
        lab.noteSignals(recorded.id());
        lab.note("replayed", lab.replayed(recorded, stop, stop + SEGMENT + 1024));
    }

    private static void refused(final Lab lab, final Shape from, final Shape to) throws Exception
    {
        final int stream = Lab.nextStream();
        final Lab.Recorded source = make(lab, from, stream).recorded();
        attempt(lab, source, make(lab, to, stream).recorded());
    }

    private static void missing(final Lab lab, final Shape from, final Shape to, final long base) throws Exception
    {
        final int stream = Lab.nextStream();
        final Lab.Recorded source = make(lab, from, stream).recorded();
        final Lab.Recorded target = make(lab, to, stream).recorded();
        Files.delete(lab.segment(source.id(), base).toPath());
        attempt(lab, source, target);
    }

    private static void inTheWay(final Lab lab, final Shape from, final Shape to, final long base) throws Exception
    {
        final int stream = Lab.nextStream();
        final Lab.Recorded source = make(lab, from, stream).recorded();
        final Lab.Recorded target = make(lab, to, stream).recorded();
        Files.write(lab.segment(target.id(), base).toPath(), new byte[]{ 1, 2, 3 });
        attempt(lab, source, target);
        Files.delete(lab.segment(target.id(), base).toPath());
    }

    private static void attempt(final Lab lab, final Lab.Recorded source, final Lab.Recorded target)
    {
        lab.attempt("migrate", () -> lab.archive().migrateSegments(source.id(), target.id()));
        lab.notePositions(source.id());
        lab.notePositions(target.id());
        lab.note("files of the source", lab.files(source.id()));
        lab.note("files of the target", lab.files(target.id()));
    }
}
