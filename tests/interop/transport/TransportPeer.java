import io.aeron.Aeron;
import io.aeron.ControlledFragmentAssembler;
import io.aeron.Counter;
import io.aeron.ExclusivePublication;
import io.aeron.FragmentAssembler;
import io.aeron.Image;
import io.aeron.Publication;
import io.aeron.Subscription;
import io.aeron.driver.MediaDriver;
import io.aeron.logbuffer.BufferClaim;
import io.aeron.logbuffer.ControlledFragmentHandler;
import io.aeron.logbuffer.FragmentHandler;
import io.aeron.logbuffer.Header;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.zip.CRC32;
import org.agrona.CloseHelper;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * The real Aeron's media driver, or its client, as a process of its own, told what to do by lines on stdin.
 *
 * <p>{@code driver}: Aeron's properties are the JVM's ({@code -Daeron.dir=...}). {@code client DIR name=value ...}: see
 * {@link #perform}. Both print {@code ready} when they serve. A command's answer is lines and at last {@code ok ...} or
 * {@code error ...}. At the end of stdin they close cleanly.
 */
public final class TransportPeer
{
    private static final long WAIT_NS = TimeUnit.SECONDS.toNanos(40);
    private static final int TERMINATED = 7; // exit code of a driver that a client has ended
    private static final PrintStream OUT = new PrintStream(System.out, false);

    private final List<String> errors = new ArrayList<>();
    private final List<String> events = new ArrayList<>();
    private final Map<String, Publication> concurrent = new HashMap<>();
    private final Map<String, ExclusivePublication> exclusive = new HashMap<>();
    private final Map<String, Subscription> subscriptions = new HashMap<>();
    private final Map<String, Counter> counters = new HashMap<>();
    private final Aeron aeron;

    public static void main(final String[] arguments) throws IOException
    {
        final BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        try
        {
            if (arguments[0].equals("driver"))
            {
                drive(input);
            }
            else
            {
                final TransportPeer peer = new TransportPeer(arguments);
                answer("ready " + peer.aeron.clientId());
                peer.obey(input);
            }
        }
        catch (final Throwable failure)
        {
            answer("error " + oneLine(failure));
            System.exit(1);
        }
        System.exit(0); // a thread that still waits for something must not keep the process
    }

    private static void drive(final BufferedReader input) throws IOException
    {
        final MediaDriver.Context context = new MediaDriver.Context()
            .terminationHook(() -> Runtime.getRuntime().halt(TERMINATED));
        try (MediaDriver driver = MediaDriver.launch(context))
        {
            answer("ready " + ProcessHandle.current().pid() + " " + driver.aeronDirectoryName());
            String line;
            while ((line = input.readLine()) != null && !line.equals("close"))
            {
                answer("error unknown command " + line);
            }
        }
        answer("ok");
    }

    private TransportPeer(final String[] arguments)
    {
        final Aeron.Context context = new Aeron.Context()
            .aeronDirectoryName(arguments[1])
            .errorHandler(this::onError)
            .subscriberErrorHandler(this::onError);
        for (int i = 2; i < arguments.length; i++)
        {
            final String[] parts = arguments[i].split("=", 2);
            switch (parts[0])
            {
                case "name" -> context.clientName(parts[1]);
                case "driver-timeout-ms" -> context.driverTimeoutMs(Long.parseLong(parts[1]));
                default -> throw new IllegalArgumentException("unknown option " + parts[0]);
            }
        }
        aeron = Aeron.connect(context);
    }

    private void onError(final Throwable failure)
    {
        synchronized (errors)
        {
            errors.add(oneLine(failure));
        }
    }

    private static String oneLine(final Throwable failure)
    {
        final StringBuilder text = new StringBuilder(failure.toString());
        for (Throwable cause = failure.getCause(); cause != null; cause = cause.getCause())
        {
            text.append(" <- ").append(cause);
        }
        return text.toString().replaceAll("\\s+", " ");
    }

    private static void answer(final String line)
    {
        OUT.println(line);
        OUT.flush();
    }

    private void obey(final BufferedReader input) throws IOException
    {
        String line;
        while ((line = input.readLine()) != null && !line.equals("close"))
        {
            try
            {
                final String said = perform(line.split(" "));
                answer(said.isEmpty() ? "ok" : "ok " + said);
            }
            catch (final Throwable failure)
            {
                answer("error " + oneLine(failure));
            }
        }
        CloseHelper.quietClose(aeron);
        answer("ok");
    }

    private String perform(final String[] words)
    {
        final String name = words.length > 1 ? words[1] : "";
        return switch (words[0])
        {
            case "publish" -> publish(name, words[2], Integer.parseInt(words[3]), words[4].equals("exclusive"));
            case "offer" -> offer(name, words);
            case "subscribe" -> subscribe(name, words[2], Integer.parseInt(words[3]));
            case "poll" -> poll(name, Long.parseLong(words[2]), words[3]);
            case "await-images" -> awaitImages(name, Integer.parseInt(words[2]));
            case "await-connected" -> awaitConnected(name, words[2].equals("true"));
            case "images" -> images(name);
            case "add-destination" -> destination(name, words[2], true);
            case "remove-destination" -> destination(name, words[2], false);
            case "local-addresses" -> String.join(" ", localAddresses(name));
            case "counter" ->
            {
                counters.put(name, aeron.addCounter(Integer.parseInt(words[2]), words[3]));
                counters.get(name).setRelease(Long.parseLong(words[4]));
                yield Integer.toString(counters.get(name).id());
            }
            case "reject" ->
            {
                subscriptions.get(name).imageAtIndex(0).reject(words[2]);
                yield "";
            }
            case "revoke" ->
            {
                exclusive.remove(name).revoke();
                yield "";
            }
            case "close-one" ->
            {
                CloseHelper.closeAll(
                    concurrent.remove(name), exclusive.remove(name), subscriptions.remove(name), counters.remove(name));
                yield "";
            }
            case "counters" -> tellCounters();
            case "events" -> tell(events);
            case "errors" -> tell(errors);
            default -> throw new IllegalArgumentException("unknown command " + words[0]);
        };
    }

    private static void await(final String what, final BooleanSupplier isDone)
    {
        final long end = System.nanoTime() + WAIT_NS;
        while (!isDone.getAsBoolean())
        {
            if (System.nanoTime() - end > 0)
            {
                throw new IllegalStateException("waited too long for " + what);
            }
            Thread.yield();
        }
    }

    // Publishing

    private String publish(final String name, final String channel, final int streamId, final boolean isExclusive)
    {
        if (isExclusive)
        {
            exclusive.put(name, aeron.addExclusivePublication(channel, streamId));
        }
        else
        {
            concurrent.put(name, aeron.addPublication(channel, streamId));
        }
        final Publication some = some(name);
        return some.sessionId() + " " + some.initialTermId() + " " + some.termBufferLength() + " " +
            some.maxPayloadLength() + " " + some.maxMessageLength() + " " + some.position();
    }

    private Publication some(final String name)
    {
        final Publication found = exclusive.containsKey(name) ? exclusive.get(name) : concurrent.get(name);
        if (found == null)
        {
            throw new IllegalArgumentException("no publication " + name);
        }
        return found;
    }

    private String awaitConnected(final String name, final boolean wanted)
    {
        final Publication publication = some(name);
        await(wanted ? "a subscriber" : "no subscriber", () -> publication.isConnected() == wanted);
        return "";
    }

    /** offer NAME SEED FIRST COUNT SIZE,... offer|claim: by the rule of the golden data. */
    private String offer(final String name, final String[] words)
    {
        final Publication publication = some(name);
        final int seed = Integer.parseInt(words[2]);
        final long first = Long.parseLong(words[3]);
        final long end = first + Long.parseLong(words[4]);
        final String[] sizes = words[5].split(",");
        final boolean claims = words.length > 6 && words[6].equals("claim");
        final long from = publication.position();
        final BufferClaim claim = new BufferClaim();
        for (long i = first; i < end; i++)
        {
            final int length = Integer.parseInt(sizes[(int)(i % sizes.length)]);
            final byte[] payload = new byte[length];
            for (int j = 0; j < length; j++)
            {
                payload[j] = (byte)(seed * 31 + i * 7 + length + j * (1 + (i & 3)));
            }
            final long reserved = ((long)seed << 32) | i;
            final UnsafeBuffer buffer = new UnsafeBuffer(payload);
            await("room to publish", () ->
            {
                final long result = claims && length <= publication.maxPayloadLength() ?
                    claim(publication, claim, buffer, length, reserved) :
                    publication.offer(buffer, 0, length, (term, offset, bytes) -> reserved);
                if (result == Publication.CLOSED || result == Publication.MAX_POSITION_EXCEEDED)
                {
                    throw new IllegalStateException("publishing: " + Publication.errorString(result));
                }
                return result >= 0;
            });
        }
        return from + " " + publication.position();
    }

    private static long claim(
        final Publication publication,
        final BufferClaim claim,
        final UnsafeBuffer payload,
        final int length,
        final long reserved)
    {
        final long result = publication.tryClaim(length, claim);
        if (result >= 0)
        {
            claim.buffer().putBytes(claim.offset(), payload, 0, length);
            claim.reservedValue(reserved).commit();
        }
        return result;
    }

    // Subscribing

    private String subscribe(final String name, final String channel, final int streamId)
    {
        subscriptions.put(name, aeron.addSubscription(channel, streamId,
            (image) -> note("available " + name + " " + describe(image)),
            (image) -> note("unavailable " + name + " " + describe(image))));
        return Long.toString(subscriptions.get(name).registrationId());
    }

    private static String describe(final Image image)
    {
        return image.sessionId() + " " + image.position() + " " + image.isEndOfStream() + " " +
            image.sourceIdentity();
    }

    private void note(final String event)
    {
        synchronized (events)
        {
            events.add(event);
        }
    }

    private String awaitImages(final String name, final int count)
    {
        final Subscription subscription = subscriptions.get(name);
        await(count + " images", () -> subscription.imageCount() == count);
        return images(name);
    }

    private String images(final String name)
    {
        final List<String> found = new ArrayList<>();
        subscriptions.get(name).forEachImage((image) -> found.add(image.sessionId() + ":" + image.position()));
        return String.join(" ", found);
    }

    private List<String> localAddresses(final String name)
    {
        return subscriptions.containsKey(name) ?
            subscriptions.get(name).localSocketAddresses() : some(name).localSocketAddresses();
    }

    private String destination(final String name, final String uri, final boolean adds)
    {
        if (subscriptions.containsKey(name) && adds)
        {
            subscriptions.get(name).addDestination(uri);
        }
        else if (subscriptions.containsKey(name))
        {
            subscriptions.get(name).removeDestination(uri);
        }
        else if (adds)
        {
            some(name).addDestination(uri);
        }
        else
        {
            some(name).removeDestination(uri);
        }
        return "";
    }

    /** poll NAME COUNT messages|fragments|controlled: until so many came. Answers them by seed, see {@link Seen}. */
    private String poll(final String name, final long count, final String kind)
    {
        final Subscription subscription = subscriptions.get(name);
        final Seen seen = new Seen();
        final FragmentAssembler whole = new FragmentAssembler(seen, 1 << 16);
        final ControlledFragmentAssembler controlled = new ControlledFragmentAssembler(
            (buffer, offset, length, header) ->
            {
                seen.onFragment(buffer, offset, length, header);
                return ControlledFragmentHandler.Action.CONTINUE;
            },
            1 << 16);
        long deadline = System.nanoTime() + WAIT_NS;
        while (seen.count < count)
        {
            final int polled = switch (kind)
            {
                case "messages" -> subscription.poll(whole, 1);
                case "fragments" -> subscription.poll(seen, 1);
                case "controlled" -> subscription.controlledPoll(controlled, 1);
                default -> throw new IllegalArgumentException("unknown poll " + kind);
            };
            if (polled > 0)
            {
                deadline = System.nanoTime() + WAIT_NS;
                continue;
            }
            if (System.nanoTime() - deadline > 0)
            {
                throw new IllegalStateException(
                    "waited too long after " + seen.count + " of " + count + " " + kind + ": " + seen.summary());
            }
            Thread.yield();
        }
        return seen.summary();
    }

    /** Of each sender's seed: count, bytes, CRC32 over length, CRC32 and reserved value of each, breaks in order. */
    private static final class Seen implements FragmentHandler
    {
        private static final class Sender
        {
            private final CRC32 all = new CRC32();
            private long count;
            private long bytes;
            private long next = -1;
            private long breaks;
        }

        private final Map<Long, Sender> senders = new TreeMap<>();
        private final CRC32 one = new CRC32();
        private final ByteBuffer row = ByteBuffer.allocate(16).order(ByteOrder.LITTLE_ENDIAN);
        private long count;

        public void onFragment(final DirectBuffer buffer, final int offset, final int length, final Header header)
        {
            final byte[] payload = new byte[length];
            buffer.getBytes(offset, payload);
            one.reset();
            one.update(payload);
            final long reserved = header.reservedValue();
            final Sender sender = senders.computeIfAbsent(reserved >> 32, (seed) -> new Sender());
            row.clear();
            row.putInt(length).putInt((int)one.getValue()).putLong(reserved);
            sender.all.update(row.array());
            sender.bytes += length;
            sender.count++;
            final long index = reserved & 0xFFFF_FFFFL;
            sender.breaks += sender.next >= 0 && index != sender.next ? 1 : 0;
            sender.next = index + 1;
            count++;
        }

        private String summary()
        {
            final List<String> found = new ArrayList<>();
            senders.forEach((seed, sender) -> found.add(
                seed + ":" + sender.count + ":" + sender.bytes + ":" + sender.all.getValue() + ":" + sender.breaks));
            return String.join(" ", found);
        }
    }

    // Looking

    private String tellCounters()
    {
        final int[] count = new int[1];
        aeron.countersReader().forEach((value, id, label) ->
        {
            count[0]++;
            OUT.println("counter " + id + " " + aeron.countersReader().getCounterTypeId(id) + " " + value + " " + label);
        });
        return Integer.toString(count[0]);
    }

    private static String tell(final List<String> lines)
    {
        synchronized (lines)
        {
            lines.forEach((line) -> OUT.println("line " + line));
            final String count = Integer.toString(lines.size());
            lines.clear();
            return count;
        }
    }
}
