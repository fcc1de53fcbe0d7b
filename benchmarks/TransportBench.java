import io.aeron.Aeron;
import io.aeron.ExclusivePublication;
import io.aeron.Subscription;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import io.aeron.logbuffer.FragmentHandler;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.agrona.CloseHelper;
import org.agrona.concurrent.BackoffIdleStrategy;
import org.agrona.concurrent.IdleStrategy;
import org.agrona.concurrent.UnsafeBuffer;
import org.agrona.hints.ThreadHints;

/**
 * Times the real Aeron client, and is the real media driver for either side.
 *
 * <p>Arguments: the driver's folder; the driver's threading mode, or {@code client} for a driver that runs elsewhere;
 * {@code alone} for a driver without a client.
 * On stdin come the commands of {@code transport_client.py}, which says what each does; answers are the same.
 */
public final class TransportBench
{
    private static final int SPINS_BEFORE_YIELD = 200;
    private static final int FRAGMENTS_OF_A_POLL = 1024;
    private static final long WAIT_NS = TimeUnit.SECONDS.toNanos(120);
    private static final int WARM_UP_ROUND_TRIPS = 10_000;

    private final MediaDriver driver;
    private final Aeron aeron;
    private final byte[] copies = new byte[1 << 17];
    private String channelInUse = "";
    private ExclusivePublication publication;
    private Subscription subscription;
    private int copied;
    private long seen;
    private long bytesSeen;

    public static void main(final String[] arguments) throws IOException
    {
        final boolean isAlone = arguments.length > 2 && arguments[2].equals("alone");
        final TransportBench bench = new TransportBench(arguments[0], arguments[1], isAlone);
        System.out.println("ready");
        final BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = input.readLine()) != null && !line.equals("close"))
        {
            try
            {
                System.out.println("ok " + bench.run(line.split(" ")));
            }
            catch (final RuntimeException failure)
            {
                System.out.println("error " + failure.toString().replaceAll("\\s+", " "));
            }
        }
        CloseHelper.quietClose(bench.aeron);
        CloseHelper.quietClose(bench.driver);
        System.exit(0);
    }

    private TransportBench(final String folder, final String mode, final boolean isAlone)
    {
        driver = mode.equals("client") ? null : MediaDriver.launch(new MediaDriver.Context()
            .aeronDirectoryName(folder)
            .dirDeleteOnStart(true)
            .dirDeleteOnShutdown(true)
            .threadingMode(ThreadingMode.valueOf(mode)));
        aeron = isAlone ? null : Aeron.connect(new Aeron.Context().aeronDirectoryName(folder));
    }

    private String run(final String[] words)
    {
        final String channel = words[1];
        final int stream = Integer.parseInt(words[2]);
        final int payloadBytes = Integer.parseInt(words[3]);
        final long messages = Long.parseLong(words[4]);
        final long took = switch (words[0])
        {
            case "one" -> one(channel, stream, payloadBytes, messages, Integer.parseInt(words[5]));
            case "publish" -> publish(channel, stream, payloadBytes, messages, idleOf(words[5]));
            case "subscribe" -> subscribe(channel, stream, payloadBytes, messages, idleOf(words[5]));
            case "ping" -> ping(channel, stream, payloadBytes, (int)messages);
            case "pong" -> pong(channel, stream, messages);
            default -> throw new IllegalArgumentException(words[0]);
        };
        return String.format(Locale.ROOT, "%d %.9f", messages, took / 1e9);
    }

    /** Spins, and lets the driver have the processor now and then; or as Aeron's agents do by default. */
    private static IdleStrategy idleOf(final String name)
    {
        return name.equals("backoff") ? new BackoffIdleStrategy(10, 20, 1_000, 1_000_000) : new IdleStrategy()
        {
            private int spins;

            public void idle(final int workCount)
            {
                if (workCount > 0)
                {
                    reset();
                }
                else
                {
                    idle();
                }
            }

            public void idle()
            {
                if (++spins > SPINS_BEFORE_YIELD)
                {
                    spins = 0;
                    Thread.yield();
                }
                else
                {
                    ThreadHints.onSpinWait();
                }
            }

            public void reset()
            {
                spins = 0;
            }
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

    /** What was opened for a channel and stream stays open for the next command with them. */
    private boolean isInUse(final String channel, final int stream)
    {
        final String wanted = channel + " " + stream;
        if (channelInUse.equals(wanted))
        {
            return true;
        }
        CloseHelper.closeAll(publication, subscription);
        publication = null;
        subscription = null;
        channelInUse = wanted;
        return false;
    }

    private FragmentHandler copying()
    {
        return (buffer, offset, length, header) ->
        {
            if (copied + length > copies.length)
            {
                copied = 0;
            }
            buffer.getBytes(offset, copies, copied, length);
            copied += length;
            seen++;
            bytesSeen += length;
        };
    }

    private long one(
        final String channel, final int stream, final int payloadBytes, final long messages, final int burst)
    {
        if (!isInUse(channel, stream))
        {
            subscription = aeron.addSubscription(channel, stream);
            publication = aeron.addExclusivePublication(channel, stream);
            await("an image", () -> subscription.isConnected() && publication.isConnected());
        }
        final UnsafeBuffer buffer = new UnsafeBuffer(ByteBuffer.allocateDirect(payloadBytes));
        final IdleStrategy idle = idleOf("spin");
        final FragmentHandler handler = copying();
        seen = 0;
        bytesSeen = 0;
        long sent = 0;
        final long begin = System.nanoTime();
        while (seen < messages)
        {
            int count = 0;
            while (count < burst && sent < messages)
            {
                if (publication.offer(buffer, 0, payloadBytes) < 0)
                {
                    break;
                }
                count++;
                sent++;
            }
            int polled = 0;
            int fragments;
            copied = 0;
            while (seen < sent && (fragments = subscription.poll(handler, FRAGMENTS_OF_A_POLL)) > 0)
            {
                polled += fragments;
            }
            idle.idle(count + polled);
        }
        return checked(System.nanoTime() - begin, payloadBytes, messages);
    }

    private long checked(final long took, final int payloadBytes, final long messages)
    {
        if (seen != messages || bytesSeen != messages * payloadBytes)
        {
            throw new IllegalStateException(seen + " messages of " + bytesSeen + " bytes");
        }
        return took;
    }

    private long publish(
        final String channel, final int stream, final int payloadBytes, final long messages, final IdleStrategy idle)
    {
        if (!isInUse(channel, stream))
        {
            publication = aeron.addExclusivePublication(channel, stream);
        }
        await("a subscriber", publication::isConnected);
        final UnsafeBuffer buffer = new UnsafeBuffer(ByteBuffer.allocateDirect(payloadBytes));
        final long begin = System.nanoTime();
        for (long i = 0; i < messages; i++)
        {
            while (publication.offer(buffer, 0, payloadBytes) < 0)
            {
                idle.idle();
            }
            idle.reset();
        }
        return System.nanoTime() - begin;
    }

    /** From the first message until the last. */
    private long subscribe(
        final String channel, final int stream, final int payloadBytes, final long messages, final IdleStrategy idle)
    {
        if (!isInUse(channel, stream))
        {
            subscription = aeron.addSubscription(channel, stream);
        }
        System.out.println("waiting");
        final FragmentHandler handler = copying();
        seen = 0;
        bytesSeen = 0;
        final long end = System.nanoTime() + WAIT_NS;
        long begin = 0;
        while (seen < messages)
        {
            final int fragments = subscription.poll(handler, FRAGMENTS_OF_A_POLL);
            if (fragments > 0 && begin == 0)
            {
                begin = System.nanoTime();
            }
            if (fragments == 0 && System.nanoTime() - end > 0)
            {
                throw new IllegalStateException("waited too long for message " + seen);
            }
            idle.idle(fragments);
        }
        return checked(System.nanoTime() - begin, payloadBytes, messages);
    }

    /** The median time of a message's way there and back. */
    private long ping(final String channel, final int stream, final int payloadBytes, final int messages)
    {
        if (!isInUse(channel, stream))
        {
            subscription = aeron.addSubscription(channel, stream + 1);
            publication = aeron.addExclusivePublication(channel, stream);
        }
        await("the other end", () -> subscription.isConnected() && publication.isConnected());
        final UnsafeBuffer buffer = new UnsafeBuffer(ByteBuffer.allocateDirect(payloadBytes));
        final FragmentHandler handler = (ignored, offset, length, header) -> seen++;
        final long[] times = new long[messages];
        for (int i = -Math.min(WARM_UP_ROUND_TRIPS, messages); i < messages; i++)
        {
            seen = 0;
            final long begin = System.nanoTime();
            while (publication.offer(buffer, 0, payloadBytes) < 0)
            {
                ThreadHints.onSpinWait();
            }
            while (seen == 0)
            {
                subscription.poll(handler, 1);
            }
            if (i >= 0)
            {
                times[i] = System.nanoTime() - begin;
            }
        }
        Arrays.sort(times);
        return times[messages / 2];
    }

    private long pong(final String channel, final int stream, final long messages)
    {
        if (!isInUse(channel, stream))
        {
            subscription = aeron.addSubscription(channel, stream);
            publication = aeron.addExclusivePublication(channel, stream + 1);
        }
        System.out.println("waiting");
        final FragmentHandler handler = (buffer, offset, length, header) ->
        {
            while (publication.offer(buffer, offset, length) < 0)
            {
                ThreadHints.onSpinWait();
            }
            seen++;
        };
        seen = 0;
        final long all = messages + Math.min(WARM_UP_ROUND_TRIPS, messages);
        final long begin = System.nanoTime();
        while (seen < all)
        {
            subscription.poll(handler, 1);
        }
        return System.nanoTime() - begin;
    }
}
