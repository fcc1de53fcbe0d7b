import io.aeron.Aeron;
import io.aeron.CncFileDescriptor;
import io.aeron.CommonContext;
import io.aeron.ErrorCode;
import io.aeron.LogBuffers;
import io.aeron.command.*;
import io.aeron.driver.reports.LossReportReader;
import io.aeron.driver.reports.LossReportUtil;
import io.aeron.logbuffer.LogBufferDescriptor;
import io.aeron.samples.CncFileReader;
import java.io.File;
import java.io.RandomAccessFile;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import org.agrona.DirectBuffer;
import org.agrona.IoUtil;
import org.agrona.concurrent.UnsafeBuffer;
import org.agrona.concurrent.broadcast.BroadcastReceiver;
import org.agrona.concurrent.broadcast.BroadcastTransmitter;
import org.agrona.concurrent.broadcast.CopyBroadcastReceiver;
import org.agrona.concurrent.errors.ErrorLogReader;
import org.agrona.concurrent.ringbuffer.ManyToOneRingBuffer;

/** Agrona's and Aeron's own classes over files that others share with it. One task for each start. */
public final class SharedMemoryPeer
{
    public static void main(final String[] args) throws Exception
    {
        switch (args[0])
        {
            case "flyweights" -> flyweights();
            case "client" -> client(args[1]);
            case "folder" -> folder(args[1]);
            case "log" -> log(args[1]);
            case "ring-write" -> ringWrite(args[1], Integer.parseInt(args[2]), Integer.parseInt(args[3]));
            case "ring-read" -> ringRead(args[1], Integer.parseInt(args[2]));
            case "broadcast-send" -> broadcastSend(args[1], Integer.parseInt(args[2]));
            case "broadcast-receive" -> broadcastReceive(args[1], Integer.parseInt(args[2]));
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    private static UnsafeBuffer fresh()
    {
        return new UnsafeBuffer(ByteBuffer.allocateDirect(256));
    }

    private static void print(final String name, final int type, final DirectBuffer buffer, final int length)
    {
        final StringBuilder hex = new StringBuilder();
        for (int i = 0; i < length; i++)
        {
            hex.append(String.format("%02x", buffer.getByte(i)));
        }
        System.out.println(name + " " + type + " " + hex);
    }

    private static UnsafeBuffer text(final String text)
    {
        return new UnsafeBuffer(text.getBytes(StandardCharsets.US_ASCII));
    }

    private static void flyweights() throws Exception
    {
        commands();
        events();
    }

    private static void commands()
    {
        for (final int type : new int[]{ ControlProtocolEvents.ADD_PUBLICATION,
            ControlProtocolEvents.ADD_EXCLUSIVE_PUBLICATION })
        {
            final UnsafeBuffer b = fresh();
            final PublicationMessageFlyweight f = new PublicationMessageFlyweight();
            f.wrap(b, 0).streamId(-5).channel("aeron:ipc").clientId(11).correlationId(12);
            print("publication", type, b, f.length());
        }
        UnsafeBuffer b = fresh();
        final RemovePublicationFlyweight removePublication = new RemovePublicationFlyweight();
        removePublication.wrap(b, 0);
        removePublication.revoke(true).registrationId(7).clientId(11).correlationId(12);
        print("remove-publication", ControlProtocolEvents.REMOVE_PUBLICATION, b, RemovePublicationFlyweight.length());

        b = fresh();
        final SubscriptionMessageFlyweight subscription = new SubscriptionMessageFlyweight();
        subscription.wrap(b, 0).registrationCorrelationId(-1).streamId(5).channel("aeron:udp?endpoint=localhost:1");
        subscription.clientId(11).correlationId(12);
        print("subscription", ControlProtocolEvents.ADD_SUBSCRIPTION, b, subscription.length());

        b = fresh();
        final RemoveSubscriptionFlyweight remove = new RemoveSubscriptionFlyweight();
        remove.wrap(b, 0).registrationId(7).clientId(11).correlationId(12);
        print("remove-subscription", ControlProtocolEvents.REMOVE_SUBSCRIPTION, b, RemoveMessageFlyweight.length());
        print("remove-counter", ControlProtocolEvents.REMOVE_COUNTER, b, RemoveMessageFlyweight.length());

        b = fresh();
        final CorrelatedMessageFlyweight correlated = new CorrelatedMessageFlyweight();
        correlated.wrap(b, 0).clientId(11).correlationId(12);
        print("keepalive", ControlProtocolEvents.CLIENT_KEEPALIVE, b, CorrelatedMessageFlyweight.LENGTH);
        print("close", ControlProtocolEvents.CLIENT_CLOSE, b, CorrelatedMessageFlyweight.LENGTH);

        b = fresh();
        final DestinationMessageFlyweight destination = new DestinationMessageFlyweight();
        destination.wrap(b, 0).registrationCorrelationId(7).channel("aeron:udp?endpoint=localhost:1");
        destination.clientId(11).correlationId(12);
        print("add-destination", ControlProtocolEvents.ADD_DESTINATION, b, destination.length());
        print("remove-destination", ControlProtocolEvents.REMOVE_DESTINATION, b, destination.length());
        print("add-rcv-destination", ControlProtocolEvents.ADD_RCV_DESTINATION, b, destination.length());
        print("remove-rcv-destination", ControlProtocolEvents.REMOVE_RCV_DESTINATION, b, destination.length());

        b = fresh();
        final DestinationByIdMessageFlyweight byId = new DestinationByIdMessageFlyweight();
        byId.wrap(b, 0).resourceRegistrationId(7).destinationRegistrationId(8).clientId(11).correlationId(12);
        print("remove-by-id", ControlProtocolEvents.REMOVE_DESTINATION_BY_ID, b,
            DestinationByIdMessageFlyweight.MESSAGE_LENGTH);
        counterCommands();
        otherCommands();
    }

    private static void counterCommands()
    {
        UnsafeBuffer b = fresh();
        final CounterMessageFlyweight counter = new CounterMessageFlyweight();
        counter.wrap(b, 0).keyBuffer(text("abcde"), 0, 5).labelBuffer(text("label"), 0, 5).typeId(1001);
        counter.clientId(11).correlationId(12);
        print("counter", ControlProtocolEvents.ADD_COUNTER, b, counter.length());

        b = fresh();
        final StaticCounterMessageFlyweight fixed = new StaticCounterMessageFlyweight();
        fixed.wrap(b, 0).keyBuffer(text("abc"), 0, 3).labelBuffer(text("label"), 0, 5).typeId(1001).registrationId(7);
        fixed.clientId(11).correlationId(12);
        print("static-counter", ControlProtocolEvents.ADD_STATIC_COUNTER, b, fixed.length());
    }

    private static void otherCommands()
    {
        UnsafeBuffer b = fresh();
        final TerminateDriverFlyweight terminate = new TerminateDriverFlyweight();
        terminate.wrap(b, 0).tokenBuffer(text("token"), 0, 5).clientId(11).correlationId(12);
        print("terminate", ControlProtocolEvents.TERMINATE_DRIVER, b, terminate.length());

        b = fresh();
        final RejectImageFlyweight reject = new RejectImageFlyweight();
        reject.wrap(b, 0).imageCorrelationId(7).position(4096).reason("why");
        reject.clientId(11).correlationId(12);
        print("reject-image", ControlProtocolEvents.REJECT_IMAGE, b, RejectImageFlyweight.computeLength("why"));

        b = fresh();
        final GetNextAvailableSessionIdMessageFlyweight next = new GetNextAvailableSessionIdMessageFlyweight();
        next.wrap(b, 0).streamId(5).clientId(11).correlationId(12);
        print("next-session-id", ControlProtocolEvents.GET_NEXT_AVAILABLE_SESSION_ID, b,
            GetNextAvailableSessionIdMessageFlyweight.LENGTH);
    }

    private static void events() throws Exception
    {
        UnsafeBuffer b = fresh();
        final ErrorResponseFlyweight error = new ErrorResponseFlyweight();
        error.wrap(b, 0).offendingCommandCorrelationId(12).errorCode(ErrorCode.MALFORMED_COMMAND).errorMessage("no");
        print("error", ControlProtocolEvents.ON_ERROR, b, error.length());

        b = fresh();
        final ImageBuffersReadyFlyweight image = new ImageBuffersReadyFlyweight();
        image.wrap(b, 0).correlationId(12).sessionId(77).streamId(5).subscriptionRegistrationId(13)
            .subscriberPositionId(9).logFileName("/logs").sourceIdentity("aeron:ipc");
        print("available-image", ControlProtocolEvents.ON_AVAILABLE_IMAGE, b, image.length());

        for (final int type : new int[]{ ControlProtocolEvents.ON_PUBLICATION_READY,
            ControlProtocolEvents.ON_EXCLUSIVE_PUBLICATION_READY })
        {
            b = fresh();
            final PublicationBuffersReadyFlyweight ready = new PublicationBuffersReadyFlyweight();
            ready.wrap(b, 0).correlationId(12).registrationId(10).sessionId(-77).streamId(5)
                .publicationLimitCounterId(9).channelStatusCounterId(-1).logFileName("/log");
            print("publication-ready", type, b, ready.length());
        }
        b = fresh();
        new OperationSucceededFlyweight().wrap(b, 0).correlationId(12);
        print("success", ControlProtocolEvents.ON_OPERATION_SUCCESS, b, OperationSucceededFlyweight.LENGTH);

        b = fresh();
        final ImageMessageFlyweight gone = new ImageMessageFlyweight();
        gone.wrap(b, 0).correlationId(12).subscriptionRegistrationId(13).streamId(5).channel("aeron:ipc");
        print("unavailable-image", ControlProtocolEvents.ON_UNAVAILABLE_IMAGE, b, gone.length());

        b = fresh();
        new SubscriptionReadyFlyweight().wrap(b, 0).correlationId(12).channelStatusCounterId(-1);
        print("subscription-ready", ControlProtocolEvents.ON_SUBSCRIPTION_READY, b, SubscriptionReadyFlyweight.LENGTH);
        counterEvents();

        b = fresh();
        final PublicationErrorFrameFlyweight frame = new PublicationErrorFrameFlyweight();
        frame.wrap(b, 0).registrationId(1).destinationRegistrationId(2).sessionId(3).streamId(4).receiverId(5)
            .groupTag(6L).sourceAddress(new InetSocketAddress(InetAddress.getByName("10.1.2.3"), 40123))
            .errorCode(ErrorCode.IMAGE_REJECTED).errorMessage("no");
        print("publication-error", ControlProtocolEvents.ON_PUBLICATION_ERROR, b, frame.length());
        b = fresh();
        frame.wrap(b, 0).registrationId(1).destinationRegistrationId(2).sessionId(3).streamId(4).receiverId(5)
            .groupTag(6L).sourceAddress(new InetSocketAddress(InetAddress.getByName("2001:db8::1"), 40123))
            .errorCode(ErrorCode.IMAGE_REJECTED).errorMessage("no");
        print("publication-error", ControlProtocolEvents.ON_PUBLICATION_ERROR, b, frame.length());
    }

    private static void counterEvents()
    {
        UnsafeBuffer b = fresh();
        new CounterUpdateFlyweight().wrap(b, 0).correlationId(12).counterId(9);
        print("counter-ready", ControlProtocolEvents.ON_COUNTER_READY, b, CounterUpdateFlyweight.LENGTH);
        print("unavailable-counter", ControlProtocolEvents.ON_UNAVAILABLE_COUNTER, b, CounterUpdateFlyweight.LENGTH);
        b = fresh();
        new ClientTimeoutFlyweight().wrap(b, 0).clientId(11);
        print("client-timeout", ControlProtocolEvents.ON_CLIENT_TIMEOUT, b, ClientTimeoutFlyweight.LENGTH);
        b = fresh();
        new StaticCounterFlyweight().wrap(b, 0).correlationId(12).counterId(9);
        print("static-counter", ControlProtocolEvents.ON_STATIC_COUNTER, b, StaticCounterFlyweight.LENGTH);
        b = fresh();
        new NextAvailableSessionIdFlyweight().wrap(b, 0).correlationId(12).nextSessionId(-9);
        print("next-session-id", ControlProtocolEvents.ON_NEXT_AVAILABLE_SESSION_ID, b,
            NextAvailableSessionIdFlyweight.LENGTH);
    }

    /** A client that asks for many things and waits for none. */
    private static void client(final String folder)
    {
        final Aeron.Context context = new Aeron.Context().aeronDirectoryName(folder).useConductorAgentInvoker(true)
            .driverTimeoutMs(600_000).closeLingerDurationNs(0);
        final Aeron aeron = Aeron.connect(context);
        System.out.println("client " + aeron.clientId());
        final long publication = aeron.asyncAddPublication("aeron:ipc?alias=one", 1001);
        final long exclusive = aeron.asyncAddExclusivePublication("aeron:udp?endpoint=localhost:40123|mtu=1408", -7);
        final long subscription = aeron.asyncAddSubscription("aeron-spy:aeron:udp?endpoint=localhost:40123", -7);
        final long counter = aeron.asyncAddCounter(1777, text("key"), 0, 3, text("a label"), 0, 7);
        final long fixed = aeron.asyncAddStaticCounter(1778, "fixed", 99);
        System.out.println("ids " + publication + " " + exclusive + " " + subscription + " " + counter + " " + fixed);
        aeron.asyncRemovePublication(publication);
        aeron.asyncRemoveSubscription(subscription);
        aeron.asyncRemoveCounter(counter);
        final UnsafeBuffer token = text("secret");
        CommonContext.requestDriverTermination(new File(folder), token, 0, 6);
        aeron.close();
        System.out.println("closed");
    }

    private static void folder(final String name)
    {
        System.setProperty(CommonContext.AERON_DIR_PROP_NAME, name);
        try (CncFileReader reader = CncFileReader.map())
        {
            System.out.println("version " + reader.semanticVersion());
            System.out.println("heartbeat " + reader.driverHeartbeatMs());
            reader.countersReader().forEach((value, id, label) -> System.out.println(
                "counter " + id + " " + reader.countersReader().getCounterTypeId(id) + " " + value + " " +
                reader.countersReader().getCounterRegistrationId(id) + " " +
                reader.countersReader().getCounterOwnerId(id) + " " +
                reader.countersReader().getCounterReferenceId(id) + " " + label));
        }
        final MappedByteBuffer cnc = IoUtil.mapExistingFile(new File(name, CncFileDescriptor.CNC_FILE), "cnc");
        cnc.order(ByteOrder.LITTLE_ENDIAN);
        final UnsafeBuffer metadata = CncFileDescriptor.createMetaDataBuffer(cnc);
        CncFileDescriptor.checkVersion(metadata.getInt(0));
        System.out.println("timeout " + CncFileDescriptor.clientLivenessTimeoutNs(metadata));
        System.out.println("pid " + CncFileDescriptor.pid(metadata));
        System.out.println("start " + CncFileDescriptor.startTimestampMs(metadata));
        System.out.println("page " + CncFileDescriptor.filePageSize(metadata));
        System.out.println("sufficient " + CncFileDescriptor.isCncFileLengthSufficient(metadata, cnc.capacity()));
        final ManyToOneRingBuffer ring =
            new ManyToOneRingBuffer(CncFileDescriptor.createToDriverBuffer(cnc, metadata));
        System.out.println("ring " + ring.capacity() + " " + ring.size() + " " + ring.nextCorrelationId());
        final BroadcastReceiver broadcast =
            new BroadcastReceiver(CncFileDescriptor.createToClientsBuffer(cnc, metadata));
        System.out.println("broadcast " + broadcast.capacity());
        ErrorLogReader.read(
            CncFileDescriptor.createErrorLogBuffer(cnc, metadata),
            (count, first, last, error) ->
                System.out.println("error " + count + " " + first + " " + last + " " + error.split("\n")[0]));
        final MappedByteBuffer losses = LossReportUtil.mapLossReportReadOnly(name);
        LossReportReader.read(
            new UnsafeBuffer(losses),
            (count, lost, first, last, session, stream, channel, source) -> System.out.println(
                "loss " + count + " " + lost + " " + first + " " + last + " " + session + " " + stream + " " +
                channel + " " + source));
    }

    private static void log(final String path)
    {
        final LogBuffers log = new LogBuffers(path);
        final UnsafeBuffer m = log.metaDataBuffer();
        System.out.println("term " + log.termLength() + " page " + LogBufferDescriptor.pageSize(m) +
            " mtu " + LogBufferDescriptor.mtuLength(m) + " initial " + LogBufferDescriptor.initialTermId(m) +
            " correlation " + LogBufferDescriptor.correlationId(m));
        System.out.println("active " + LogBufferDescriptor.activeTermCount(m) + " eos " +
            LogBufferDescriptor.endOfStreamPosition(m) + " connected " + LogBufferDescriptor.isConnected(m) +
            " transports " + LogBufferDescriptor.activeTransportCount(m));
        for (int i = 0; i < 3; i++)
        {
            final long tail = LogBufferDescriptor.rawTail(m, i);
            System.out.println("tail " + LogBufferDescriptor.termId(tail) + " " +
                LogBufferDescriptor.termOffset(tail, log.termLength()) + " first " +
                log.duplicateTermBuffers()[i].getInt(0));
        }
        System.out.println("flags " + LogBufferDescriptor.group(m) + " " + LogBufferDescriptor.isResponse(m) + " " +
            LogBufferDescriptor.rejoin(m) + " " + LogBufferDescriptor.reliable(m) + " " +
            LogBufferDescriptor.sparse(m) + " " + LogBufferDescriptor.signalEos(m) + " " +
            LogBufferDescriptor.spiesSimulateConnection(m) + " " + LogBufferDescriptor.tether(m));
        System.out.println("windows " + LogBufferDescriptor.publicationWindowLength(m) + " " +
            LogBufferDescriptor.receiverWindowLength(m) + " " + LogBufferDescriptor.socketSndbufLength(m) + " " +
            LogBufferDescriptor.socketRcvbufLength(m) + " " + LogBufferDescriptor.maxResend(m));
        System.out.println("times " + LogBufferDescriptor.lingerTimeoutNs(m) + " " +
            LogBufferDescriptor.untetheredWindowLimitTimeoutNs(m) + " " +
            LogBufferDescriptor.untetheredRestingTimeoutNs(m) + " " + LogBufferDescriptor.entityTag(m) + " " +
            LogBufferDescriptor.responseCorrelationId(m));
        log.close();
    }

    private static UnsafeBuffer map(final String path) throws Exception
    {
        try (RandomAccessFile file = new RandomAccessFile(path, "rw"))
        {
            final MappedByteBuffer mapped = file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, file.length());
            return new UnsafeBuffer(mapped.order(ByteOrder.LITTLE_ENDIAN));
        }
    }

    /** The n-th message of a writer: both numbers, 1 to 7 times. */
    private static int fill(final UnsafeBuffer buffer, final int writer, final int number)
    {
        final int repeats = 1 + number % 7;
        for (int i = 0; i < repeats; i++)
        {
            buffer.putInt(i * 8, writer);
            buffer.putInt(i * 8 + 4, number);
        }
        return repeats * 8;
    }

    private static void check(final DirectBuffer buffer, final int index, final int length, final int next)
    {
        final int number = buffer.getInt(index + 4);
        if (number != next || length != (1 + number % 7) * 8)
        {
            throw new IllegalStateException("message " + number + " of " + length + " bytes, expected " + next);
        }
        for (int i = 8; i < length; i += 8)
        {
            if (buffer.getLong(index + i) != buffer.getLong(index))
            {
                throw new IllegalStateException("torn message " + number);
            }
        }
    }

    private static void ringWrite(final String path, final int writer, final int count) throws Exception
    {
        final ManyToOneRingBuffer ring = new ManyToOneRingBuffer(map(path));
        final UnsafeBuffer message = fresh();
        for (int number = 0; number < count; )
        {
            if (ring.write(1 + writer, message, 0, fill(message, writer, number)))
            {
                number++;
            }
            else
            {
                Thread.yield();
            }
        }
        System.out.println("written " + count);
    }

    private static void ringRead(final String path, final int count) throws Exception
    {
        final ManyToOneRingBuffer ring = new ManyToOneRingBuffer(map(path));
        final int[] next = new int[16];
        int total = 0;
        while (total < count)
        {
            final int read = ring.read((type, buffer, index, length) -> check(buffer, index, length, next[type - 1]++));
            total += read;
            if (read == 0)
            {
                Thread.yield();
            }
        }
        System.out.println("read " + total);
    }

    private static void broadcastSend(final String path, final int count) throws Exception
    {
        final BroadcastTransmitter transmitter = new BroadcastTransmitter(map(path));
        final UnsafeBuffer message = fresh();
        for (int number = 0; number < count; number++)
        {
            transmitter.transmit(1, message, 0, fill(message, 0, number));
            if (number % 16 == 0)
            {
                Thread.sleep(1);
            }
        }
        System.out.println("sent " + count);
    }

    private static void broadcastReceive(final String path, final int count) throws Exception
    {
        final CopyBroadcastReceiver receiver = new CopyBroadcastReceiver(new BroadcastReceiver(map(path)));
        final int[] next = new int[1];
        System.out.println("ready");
        System.out.flush();
        while (next[0] < count)
        {
            if (receiver.receive((type, buffer, index, length) -> check(buffer, index, length, next[0]++)) == 0)
            {
                Thread.yield();
            }
        }
        System.out.println("received " + next[0]);
    }
}
