// Writes three of each message of the cluster's schema with the codecs that Aeron ships, and what was put into them as
// JSON, a line each. See README.md.
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.URI;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Stream;
import org.agrona.MutableDirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

public final class EncodeProtocol
{
    static final String CODECS = "io.aeron.cluster.codecs.";
    static final int EACH = 3;
    static final Random random = new Random(112);

    public static void main(final String[] arguments) throws Exception
    {
        final List<String> names = new ArrayList<>();
        final String folder = "/" + CODECS.replace('.', '/');
        try (var jar = FileSystems.newFileSystem(URI.create("jar:file:" + arguments[0]), Map.of());
            Stream<Path> files = Files.list(jar.getPath(folder)))
        {
            files.map((path) -> path.getFileName().toString())
                .filter((name) -> name.endsWith("Encoder.class") && !name.contains("$"))
                .map((name) -> name.substring(0, name.length() - ".class".length()))
                .sorted()
                .forEach(names::add);
        }
        for (final String name : names)
        {
            final Class<?> type = Class.forName(CODECS + name);
            if (Stream.of(type.getFields()).anyMatch((field) -> field.getName().equals("TEMPLATE_ID")))
            {
                for (int i = 0; i < EACH; i++)
                {
                    message(type, name.substring(0, name.length() - "Encoder".length()), i);
                }
            }
        }
    }

    static void message(final Class<?> type, final String name, final int index) throws Exception
    {
        final UnsafeBuffer buffer = new UnsafeBuffer(new byte[4096]);
        final Class<?> headerType = Class.forName(CODECS + "MessageHeaderEncoder");
        final Object encoder = type.getDeclaredConstructor().newInstance();
        type.getMethod("wrapAndApplyHeader", MutableDirectBuffer.class, int.class, headerType)
            .invoke(encoder, buffer, 0, headerType.getDeclaredConstructor().newInstance());
        final String fields = parts(encoder, index);
        final int length = 8 + (int)type.getMethod("encodedLength").invoke(encoder);
        final StringBuilder hex = new StringBuilder();
        for (int i = 0; i < length; i++)
        {
            hex.append(String.format("%02x", buffer.getByte(i)));
        }
        System.out.println("{\"message\": \"" + name + "\", \"bytes\": \"" + hex + "\", \"fields\": " + fields + "}");
    }

    // A block's fields, then groups of index entries, then data.
    static String parts(final Object encoder, final int index) throws Exception
    {
        final Class<?> type = encoder.getClass();
        final List<String> found = new ArrayList<>();
        for (final String name : names(type, "EncodingOffset", "EncodingOffset"))
        {
            found.add("\"" + name + "\": " + number(encoder, name));
        }
        for (final String name : names(type, "Id", null))
        {
            final Method count = method(type, name + "Count", int.class);
            final Method put = method(type, name, String.class);
            if (count != null)
            {
                final Object group = count.invoke(encoder, index);
                final List<String> entries = new ArrayList<>();
                for (int i = 0; i < index; i++)
                {
                    group.getClass().getMethod("next").invoke(group);
                    entries.add(parts(group, index));
                }
                found.add("\"" + name + "\": [" + String.join(", ", entries) + "]");
            }
            else if (put != null)
            {
                final String text = name + random.nextInt(1_000_000);
                put.invoke(encoder, text);
                found.add("\"" + name + "\": \"" + text + "\"");
            }
            else if (method(type, name + "HeaderLength") != null)
            {
                final byte[] data = new byte[random.nextInt(20)];
                random.nextBytes(data);
                final StringBuilder numbers = new StringBuilder();
                for (final byte each : data)
                {
                    numbers.append(numbers.length() == 0 ? "" : ", ").append(each & 0xFF);
                }
                final String upper = Character.toUpperCase(name.charAt(0)) + name.substring(1);
                type.getMethod("put" + upper, byte[].class, int.class, int.class)
                    .invoke(encoder, data, 0, data.length);
                found.add("\"" + name + "\": [" + numbers + "]");
            }
        }
        return "{" + String.join(", ", found) + "}";
    }

    // A flag as a truth value, an enumeration's value by its name, any other as a number.
    static String number(final Object encoder, final String name) throws Exception
    {
        for (final Method method : encoder.getClass().getMethods())
        {
            if (!method.getName().equals(name) || method.getParameterCount() != 1)
            {
                continue;
            }
            final Class<?> argument = method.getParameterTypes()[0];
            if (argument.isEnum())
            {
                final Object[] values = argument.getEnumConstants();
                final Object value = values[random.nextInt(values.length - 1)];
                method.invoke(encoder, value);
                final boolean isFlag = argument.getSimpleName().equals("BooleanType");
                return isFlag ? Boolean.toString(value.toString().equals("TRUE")) : "\"" + value + "\"";
            }
            final long value = argument == long.class ? random.nextLong() :
                argument == short.class ? random.nextInt(255) : random.nextInt();
            final Object chosen = argument == long.class ? (Object)value :
                argument == short.class ? (Object)(short)value : (Object)(int)value;
            method.invoke(encoder, chosen);
            return chosen.toString();
        }
        throw new IllegalStateException(name);
    }

    // The names of a block's fields by their offsets, or of groups and data by their numbers in the schema.
    static List<String> names(final Class<?> type, final String suffix, final String order) throws Exception
    {
        final List<Method> found = new ArrayList<>();
        for (final Method method : type.getMethods())
        {
            if (method.getName().endsWith(suffix) && method.getParameterCount() == 0 &&
                Modifier.isStatic(method.getModifiers()))
            {
                found.add(method);
            }
        }
        final List<String> names = new ArrayList<>();
        found.sort(Comparator.comparingLong(EncodeProtocol::value));
        for (final Method method : found)
        {
            final String name = method.getName().substring(0, method.getName().length() - suffix.length());
            if (order != null || method(type, name + "EncodingOffset") == null)
            {
                names.add(name);
            }
        }
        return names;
    }

    static long value(final Method method)
    {
        try
        {
            return ((Number)method.invoke(null)).longValue();
        }
        catch (final ReflectiveOperationException failure)
        {
            throw new IllegalStateException(failure);
        }
    }

    static Method method(final Class<?> type, final String name, final Class<?>... parameters)
    {
        try
        {
            return type.getMethod(name, parameters);
        }
        catch (final NoSuchMethodException missing)
        {
            return null;
        }
    }
}
