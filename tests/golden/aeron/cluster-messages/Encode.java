// Writes messages of a cluster's log and snapshots with the codecs that Aeron ships, and what was put into them as JSON,
// a line each. See README.md.
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Base64;
import java.util.Random;
import org.agrona.MutableDirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

public final class Encode
{
    static final String CODECS = "io.aeron.cluster.codecs.";
    static final int EACH = 6;

    // In the order of the schema; "?" is optional, "*" data of variable length: "*s" text, "*b" bytes.
    static final String[] MESSAGES =
    {
        "SessionMessageHeader leadershipTermId clusterSessionId timestamp",
        "TimerEvent leadershipTermId correlationId timestamp",
        "SessionOpenEvent leadershipTermId correlationId clusterSessionId timestamp responseStreamId " +
            "responseChannel*s encodedPrincipal*b",
        "SessionCloseEvent leadershipTermId clusterSessionId timestamp closeReason?",
        "ClusterActionRequest leadershipTermId logPosition timestamp action? flags?",
        "NewLeadershipTermEvent leadershipTermId logPosition timestamp termBaseLogPosition leaderMemberId " +
            "logSessionId timeUnit? appVersion?",
        "MembershipChangeEvent leadershipTermId logPosition timestamp leaderMemberId clusterSize changeType? " +
            "memberId clusterMembers*s",
        "SnapshotMarker typeId logPosition leadershipTermId index mark? timeUnit? appVersion?",
        "ClientSession clusterSessionId responseStreamId responseChannel*s encodedPrincipal*b",
        "ClusterSession clusterSessionId correlationId openedLogPosition timeOfLastActivity closeReason? " +
            "responseStreamId responseChannel*s",
        "Timer correlationId deadline",
        "ConsensusModule nextSessionId nextServiceSessionId? logServiceSessionId? pendingMessageCapacity?",
        "ClusterMembers memberId highMemberId clusterMembers*s",
        "PendingMessageTracker nextServiceSessionId logServiceSessionId pendingMessageCapacity? serviceId",
    };

    static final Random random = new Random(111);
    static final StringBuilder json = new StringBuilder();

    static String quoted(final String text)
    {
        final StringBuilder out = new StringBuilder("\"");
        for (final char c : text.toCharArray())
        {
            out.append(c < 32 || c > 126 || c == '"' || c == '\\' ? String.format("\\u%04x", (int)c) : "" + c);
        }
        return out.append('"').toString();
    }

    // Small, as in a log; or of all bits; or a border. A 0 is what some optional fields have for null.
    static long number(final int bits)
    {
        final long most = bits == 64 ? Long.MAX_VALUE : Integer.MAX_VALUE;
        switch (random.nextInt(4))
        {
            case 0:
                return most - random.nextInt(2);
            case 1:
                return -1 - random.nextInt(3);
            case 2:
                return bits == 64 ? random.nextLong() : 1 + (random.nextInt() >>> 1);
            default:
                return 1 + random.nextInt(1_000_000);
        }
    }

    static byte[] bytes(final int most)
    {
        final byte[] data = new byte[random.nextInt(most + 1)];
        random.nextBytes(data);
        return data;
    }

    static String ascii(final int most)
    {
        final StringBuilder text = new StringBuilder();
        for (int i = random.nextInt(most + 1); i > 0; i--)
        {
            text.append((char)random.nextInt(128));
        }
        return text.toString();
    }

    static Method setter(final Class<?> type, final String name)
    {
        for (final Method method : type.getMethods())
        {
            final boolean isOne = method.getParameterCount() == 1 && method.getName().equals(name);
            if (isOne && !Modifier.isStatic(method.getModifiers()) && method.getParameterTypes()[0] != CharSequence.class)
            {
                return method;
            }
        }
        return null;
    }

    static String set(final Object encoder, final String part) throws Exception
    {
        final String name = part.replaceAll("[?*].*", "");
        final Class<?> type = encoder.getClass();
        if (part.endsWith("*b"))
        {
            final byte[] data = bytes(40);
            final String put = "put" + Character.toUpperCase(name.charAt(0)) + name.substring(1);
            type.getMethod(put, byte[].class, int.class, int.class).invoke(encoder, data, 0, data.length);
            return quoted(Base64.getEncoder().encodeToString(data));
        }
        final Method method = setter(type, name);
        if (method == null)
        {
            return "null"; // this version has no such field
        }
        final Class<?> argument = method.getParameterTypes()[0];
        final boolean isNull = part.endsWith("?") && random.nextInt(3) == 0;
        if (part.endsWith("*s"))
        {
            final String text = ascii(60);
            method.invoke(encoder, text);
            return quoted(text);
        }
        if (argument.isEnum())
        {
            final Object[] values = argument.getEnumConstants();
            final Object value = values[isNull ? values.length - 1 : random.nextInt(values.length - 1)];
            method.invoke(encoder, value);
            return isNull ? "null" : quoted(value.toString());
        }
        final Object nothing = isNull ? type.getMethod(name + "NullValue").invoke(null) : null;
        final long value = number(argument == long.class ? 64 : 32);
        final Object chosen = argument == long.class ? (Object)value : (Object)(int)value;
        method.invoke(encoder, isNull ? nothing : chosen);
        return isNull ? "null" : chosen.toString();
    }

    static void message(final String[] parts) throws Exception
    {
        final UnsafeBuffer buffer = new UnsafeBuffer(new byte[1024]);
        final Class<?> type = Class.forName(CODECS + parts[0] + "Encoder");
        final Class<?> headerType = Class.forName(CODECS + "MessageHeaderEncoder");
        final Object encoder = type.getDeclaredConstructor().newInstance();
        final Object header = headerType.getDeclaredConstructor().newInstance();
        type.getMethod("wrapAndApplyHeader", MutableDirectBuffer.class, int.class, headerType)
            .invoke(encoder, buffer, 0, header);
        json.setLength(0);
        for (int i = 1; i < parts.length; i++)
        {
            final String name = parts[i].replaceAll("[?*].*", "");
            json.append(i == 1 ? "" : ",").append(quoted(name)).append(':').append(set(encoder, parts[i]));
        }
        int length = 8 + (int)type.getMethod("encodedLength").invoke(encoder);
        String payload = "null";
        if (parts[0].equals("SessionMessageHeader"))
        {
            final byte[] data = bytes(40);
            buffer.putBytes(length, data);
            length += data.length;
            payload = quoted(Base64.getEncoder().encodeToString(data));
        }
        final StringBuilder hex = new StringBuilder();
        for (int i = 0; i < length; i++)
        {
            hex.append(String.format("%02x", buffer.getByte(i)));
        }
        System.out.println("{\"message\":" + quoted(parts[0]) + ",\"version\":" + type.getField("SCHEMA_VERSION").get(null) +
            ",\"bytes\":" + quoted(hex.toString()) + ",\"payload\":" + payload + ",\"fields\":{" + json + "}}");
    }

    public static void main(final String[] args) throws Exception
    {
        for (final String line : MESSAGES)
        {
            final String[] parts = line.split(" ");
            try
            {
                Class.forName(CODECS + parts[0] + "Encoder");
            }
            catch (final ClassNotFoundException ex)
            {
                continue; // this version has no such message
            }
            for (int i = 0; i < EACH; i++)
            {
                message(parts);
            }
        }
    }
}
