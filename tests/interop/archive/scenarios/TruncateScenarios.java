import io.aeron.ExclusivePublication;
import io.aeron.Image;
import io.aeron.Subscription;
import io.aeron.archive.client.ReplayParams;
import io.aeron.archive.codecs.RecordingSignal;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** What truncating leaves in the archive's folder. */
final class TruncateScenarios
{
    private static final long OTHER = 1_000_000; // far from the ids of recordings

    static void declare(final ScenarioPeer.Scenarios all)
    {
        all.of("open", "ArchiveTruncateRecordingTest");
        all.add("to its start: all its files go, and no other", TruncateScenarios::toTheStart);
        all.add("to zero: files that wait to be deleted go, too", TruncateScenarios::toZero);
        all.add("to a position: what follows is erased", TruncateScenarios::toAPosition);
        all.add("while it is replayed", TruncateScenarios::whileReplayed);
    }

    private static void truncate(final Lab lab, final long id, final long position)
    {
        lab.signals.clear();
        final long count = lab.archive().truncateRecording(id, position);
        lab.awaitSignal(id, RecordingSignal.DELETE);
        lab.note("truncated", count);
        lab.notePositions(id);
        lab.note("files", lab.files(id));
        lab.noteSignals(id);
        lab.verify(id);
    }

    private static List<File> others(final Lab lab, final long id, final String... names) throws IOException
    {
        final List<File> found = new ArrayList<>();
        for (final String name : names)
        {
            found.add(new File(lab.folder, name.replace("ID", Long.toString(OTHER + id))));
        }
        for (final File file : found)
        {
            Files.createFile(file.toPath());
        }
        return found;
    }

    private static void noteOthers(final Lab lab, final List<File> others) throws IOException
    {
        lab.note("others left", others.stream().filter(File::exists).count());
        for (final File file : others)
        {
            Files.deleteIfExists(file.toPath());
        }
    }

    private static void toTheStart(final Lab lab) throws Exception
    {
        final long start = 14 * Lab.TERM + 1024;
        final String channel = Lab.at(Lab.IPC, start, 3, Lab.TERM);
        final Lab.Recorded recorded = lab.record(channel, Lab.nextStream(), start + 400 * 1024);
        final long id = recorded.id();
        lab.note("files", lab.files(id));
        for (final String name : new String[]{ "0", "1", "1048575", "1048577", "222222222" })
        {
            Files.createFile(lab.file(id, name + ".rec").toPath());
        }
        final List<File> others = others(lab, id, "ID-1179648.rec", "something-else-ID.txt");
        truncate(lab, id, start);
        noteOthers(lab, others);
    }

    private static void toZero(final Lab lab) throws Exception
    {
        final Lab.Recorded recorded = lab.record(Lab.IPC, Lab.nextStream(), 3 * Lab.SEGMENT + 1024);
        final long id = recorded.id();
        lab.note("files", lab.files(id));
        for (int i = 0; i <= 3; i++)
        {
            Files.move(lab.segment(id, i * Lab.SEGMENT).toPath(), lab.file(id, i * Lab.SEGMENT + ".rec.del").toPath());
        }
        for (final String name : new String[]{ "1.rec", "2.rec.del", "262143.rec", "262145.rec" })
        {
            Files.createFile(lab.file(id, name).toPath());
        }
        final List<File> others = others(lab, id, "ID-131072.rec", "something-else-ID.txt", "ID-262144.rec.del");
        truncate(lab, id, 0);
        noteOthers(lab, others);
    }

    private static void toAPosition(final Lab lab) throws Exception
    {
        final int stop = 4 * Lab.SEGMENT + 5 * 1024;
        final int position = 2 * Lab.SEGMENT + 40 * 1024;
        final int inFile = position - 2 * Lab.SEGMENT;
        final Lab.Recorded recorded = lab.record(Lab.IPC, Lab.nextStream(), stop);
        final long id = recorded.id();
        final byte[] first = Files.readAllBytes(lab.segment(id, 0).toPath());
        final byte[] cut = Files.readAllBytes(lab.segment(id, 2 * Lab.SEGMENT).toPath());
        truncate(lab, id, position);
        final byte[] left = Files.readAllBytes(lab.segment(id, 2 * Lab.SEGMENT).toPath());
        lab.note("first file as it was", Arrays.equals(first, Files.readAllBytes(lab.segment(id, 0).toPath())));
        lab.note("as it was before the position",
            Arrays.equals(Arrays.copyOf(cut, inFile), Arrays.copyOf(left, inFile)));
        int notZero = 0;
        for (int i = inFile; i < left.length; i++)
        {
            notZero += left[i] == 0 ? 0 : 1;
        }
        lab.note("not zero after it", notZero);
        lab.note("replayed", lab.replayed(recorded, 0, position));
    }

    private static void whileReplayed(final Lab lab)
    {
        final ExclusivePublication publication =
            lab.archive().addRecordedExclusivePublication(Lab.IPC, Lab.nextStream());
        final long id = lab.recordingOf(publication);
        lab.offerTo(publication, 3 * Lab.SEGMENT);
        lab.stop(publication, id);
        try (Subscription replay = lab.archive().replay(
            id, "aeron:ipc", Lab.nextStream(), new ReplayParams()))
        {
            Lab.await("the replay", replay::isConnected);
            final Image image = replay.imageAtIndex(0);
            lab.attempt("truncate", () -> lab.archive().truncateRecording(id, 0));
            lab.notePositions(id);
            Lab.await("the replay's end", () ->
            {
                image.poll((buffer, offset, length, header) -> {}, 64);
                return image.isClosed() || image.isEndOfStream();
            });
            lab.note("replay is over", true);
        }
    }
}
