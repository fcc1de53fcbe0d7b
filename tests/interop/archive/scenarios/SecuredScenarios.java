import io.aeron.ExclusivePublication;
import io.aeron.archive.client.AeronArchive;
import io.aeron.archive.status.RecordingPos;
import io.aeron.security.CredentialsSupplier;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** Who is let in; the archive's rules are those of ArchiveServerPeer. */
final class SecuredScenarios
{
    /** First credentials, the answer to a challenge, and the challenges that came. */
    private record Said(String first, String answer, List<String> challenges) implements CredentialsSupplier
    {
        public byte[] encodedCredentials()
        {
            return first.getBytes(StandardCharsets.US_ASCII);
        }

        public byte[] onChallenge(final byte[] challenge)
        {
            challenges.add(new String(challenge, StandardCharsets.US_ASCII));
            return answer.getBytes(StandardCharsets.US_ASCII);
        }
    }

    static void declare(final ScenarioPeer.Scenarios all)
    {
        all.of("open", "ArchiveAuthenticationTest");
        all.add("without an authenticator nobody needs credentials", (lab) -> record(lab, lab.archive()));
        all.of("secured", "ArchiveAuthenticationTest");
        all.add("credentials let a client in", (lab) -> connect(lab, "admin", "never asked"));
        all.add("the answer to a challenge lets a client in", (lab) -> connect(lab, "asked", "admin"));
        all.add("credentials are rejected", (lab) -> connect(lab, "somebody", "never asked"));
        all.add("no credentials are rejected", (lab) -> connect(lab, "", "never asked"));
        all.add("the answer to a challenge is rejected", (lab) -> connect(lab, "asked", "somebody"));
        all.add("who may only read does not record", (lab) -> connect(lab, "reader", "never asked"));
    }

    private static void connect(final Lab lab, final String first, final String answer)
    {
        final Said said = new Said(first, answer, new ArrayList<>());
        lab.attempt("connect", () ->
        {
            final AeronArchive archive = lab.opened(AeronArchive.connect(lab.local().credentialsSupplier(said)));
            lab.attempt("record", () ->
            {
                record(lab, archive);
                return "";
            });
            return "";
        });
        lab.note("challenges", said.challenges());
    }

    private static void record(final Lab lab, final AeronArchive archive)
    {
        final int streamId = Lab.nextStream();
        try (ExclusivePublication publication = archive.addRecordedExclusivePublication(Lab.IPC, streamId))
        {
            final int[] counter = { -1 };
            Lab.await("the recording's counter", () ->
            {
                counter[0] = RecordingPos.findCounterIdBySession(
                    lab.aeron.countersReader(), publication.sessionId(), archive.archiveId());
                return counter[0] >= 0;
            });
            final long id = RecordingPos.getRecordingId(lab.aeron.countersReader(), counter[0]);
            lab.offer(publication, 0, 10, 100);
            Lab.await("the recording", () -> archive.getMaxRecordedPosition(id) == publication.position());
            lab.note("recorded to", publication.position());
            archive.stopRecording(publication);
        }
    }
}
