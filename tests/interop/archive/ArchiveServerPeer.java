import io.aeron.archive.Archive;
import io.aeron.archive.ArchivingMediaDriver;
import io.aeron.driver.MediaDriver;
import io.aeron.security.Authenticator;
import io.aeron.security.SessionProxy;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The real Aeron Archive in one process with its media driver, as its properties (name=value arguments) say, for clients
 * that are elsewhere. It prints {@code ready} when it serves, answers {@code errors} with a line for each error that
 * archive and driver reported, and closes cleanly at {@code close} and at the end of stdin.
 *
 * <p>With secured=true the credentials decide: {@code admin} and {@code reader} are let in at once, {@code asked} must
 * answer the challenge {@code who?} with {@code admin}, {@code silent} is never decided on; others are rejected. A
 * reader may do what changes nothing.
 */
public final class ArchiveServerPeer
{
    private static final PrintStream OUT = new PrintStream(System.out, false);
    private static final List<String> ERRORS = new ArrayList<>();
    private static final List<Integer> FOR_READERS = List.of(
        3, 8, 9, 10, 12, 15, 16, 17, 52, 61, 67, 68); // template ids

    public static void main(final String[] arguments) throws IOException
    {
        boolean isSecured = false;
        for (final String argument : arguments)
        {
            final String[] parts = argument.split("=", 2);
            if (parts[0].equals("secured"))
            {
                isSecured = Boolean.parseBoolean(parts[1]);
            }
            else
            {
                System.setProperty(parts[0], parts[1]);
            }
        }
        try
        {
            serve(isSecured);
        }
        catch (final Throwable failure)
        {
            say("error " + oneLine(failure));
            System.exit(1);
        }
        System.exit(0);
    }

    private static void serve(final boolean isSecured) throws IOException
    {
        final MediaDriver.Context media = new MediaDriver.Context()
            .dirDeleteOnStart(true)
            .dirDeleteOnShutdown(true)
            .errorHandler(ArchiveServerPeer::note);
        final Archive.Context context = new Archive.Context().errorHandler(ArchiveServerPeer::note);
        if (isSecured)
        {
            context.authenticatorSupplier(Asking::new);
            context.authorisationServiceSupplier(() -> (protocol, action, type, principal) ->
                Arrays.equals(principal, "admin".getBytes(StandardCharsets.US_ASCII)) || FOR_READERS.contains(action));
        }
        try (ArchivingMediaDriver ignored = ArchivingMediaDriver.launch(media, context))
        {
            say("ready");
            final BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
            String command;
            while ((command = commands.readLine()) != null && !command.equals("close"))
            {
                synchronized (ERRORS)
                {
                    ERRORS.forEach(OUT::println);
                    say("ok " + ERRORS.size());
                }
            }
        }
        say("ok");
    }

    /** Decides by the credentials alone. */
    private static final class Asking implements Authenticator
    {
        private final Map<Long, String> said = new HashMap<>();

        public void onConnectRequest(final long sessionId, final byte[] credentials, final long nowMs)
        {
            said.put(sessionId, new String(credentials, StandardCharsets.US_ASCII));
        }

        public void onChallengeResponse(final long sessionId, final byte[] credentials, final long nowMs)
        {
            said.put(sessionId, new String(credentials, StandardCharsets.US_ASCII));
        }

        public void onConnectedSession(final SessionProxy session, final long nowMs)
        {
            switch (said.get(session.sessionId()))
            {
                case "asked" -> session.challenge("who?".getBytes(StandardCharsets.US_ASCII));
                case "silent" -> {}
                default -> decide(session);
            }
        }

        public void onChallengedSession(final SessionProxy session, final long nowMs)
        {
            if (!said.get(session.sessionId()).equals("asked"))
            {
                decide(session);
            }
        }

        private void decide(final SessionProxy session)
        {
            final String credentials = said.get(session.sessionId());
            if (credentials.equals("admin") || credentials.equals("reader"))
            {
                session.authenticate(credentials.getBytes(StandardCharsets.US_ASCII));
            }
            else
            {
                session.reject();
            }
        }
    }

    private static void note(final Throwable failure)
    {
        synchronized (ERRORS)
        {
            ERRORS.add(oneLine(failure));
        }
    }

    private static String oneLine(final Throwable failure)
    {
        return failure.toString().replace('\n', ' ');
    }

    private static void say(final String line)
    {
        OUT.println(line);
        OUT.flush();
    }
}
