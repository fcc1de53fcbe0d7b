import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Scenarios of a client of an archive, each of which notes what it has seen. The archive and its driver run elsewhere;
 * arguments (name=value) say where: driver, folder, control, control-stream, local, local-stream, events.
 *
 * <p>It prints {@code ready}. {@code run GROUP} runs the scenarios of a group, one after the other: a line
 * {@code scenario CLASS<tab>NAME} each, and after it a line {@code fact TEXT} for each fact. CLASS is the system test of
 * Aeron whose cases the scenario covers. A scenario that fails has a last fact that says so. The answer ends with
 * {@code ok}.
 */
public final class ScenarioPeer
{
    static final PrintStream OUT = new PrintStream(System.out, false);

    /** What a scenario does. */
    interface Body
    {
        void run(Lab lab) throws Exception;
    }

    /** A scenario of a group. */
    record Scenario(String group, String upstream, String name, Body body) {}

    /** Where scenarios are declared. */
    static final class Scenarios
    {
        private final List<Scenario> all = new ArrayList<>();
        private String group;
        private String upstream;

        /** Those that follow belong to a group, and cover cases of a class. */
        void of(final String group, final String upstream)
        {
            this.group = group;
            this.upstream = upstream;
        }

        void add(final String name, final Body body)
        {
            all.add(new Scenario(group, upstream, name, body));
        }
    }

    public static void main(final String[] arguments) throws IOException
    {
        final Map<String, String> place = new HashMap<>();
        for (final String argument : arguments)
        {
            final String[] parts = argument.split("=", 2);
            place.put(parts[0], parts[1]);
        }
        final Scenarios scenarios = new Scenarios();
        BasicScenarios.declare(scenarios);
        ReplayScenarios.declare(scenarios);
        TruncateScenarios.declare(scenarios);
        HistoryScenarios.declare(scenarios);
        ExtendScenarios.declare(scenarios);
        MigrateScenarios.declare(scenarios);
        ClientScenarios.declare(scenarios);
        SecuredScenarios.declare(scenarios);
        SystemScenarios.declare(scenarios);
        say("ready");
        final BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        String command;
        while ((command = commands.readLine()) != null && !command.equals("close"))
        {
            final String[] words = command.split(" ", 3);
            for (final Scenario scenario : scenarios.all)
            {
                final boolean isAsked = words.length < 3 || scenario.name().contains(words[2]);
                if (scenario.group().equals(words[1]) && isAsked)
                {
                    run(scenario, place);
                }
            }
            say("ok");
        }
        say("ok");
        System.exit(0); // a thread that still waits for something must not keep the process
    }

    private static void run(final Scenario scenario, final Map<String, String> place)
    {
        say("scenario " + scenario.upstream() + "\t" + scenario.name());
        try (Lab lab = new Lab(place))
        {
            try
            {
                scenario.body().run(lab);
            }
            catch (final Throwable failure)
            {
                lab.note("FAILED", failure);
                failure.printStackTrace();
            }
        }
    }

    static void say(final String line)
    {
        OUT.println(line.replace('\n', ' '));
        OUT.flush();
    }
}
