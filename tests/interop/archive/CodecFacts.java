import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/**
 * What the generated decoders of a package of the jar say of their messages, by reflection. For each message a line
 * {@code message NAME TEMPLATE BLOCK_LENGTH SCHEMA VERSION}, and below it its parts in the order of the messages:
 * {@code field NAME OFFSET LENGTH SINCE TYPE NULL}, {@code group NAME HEAD BLOCK_LENGTH MOST_ENTRIES SINCE} with the
 * parts of its entries up to {@code end}, {@code data NAME SINCE}. {@code NULL} is {@code -} unless the field is
 * optional or of a type that is. For each enumeration a line {@code enum NAME}, and below it
 * {@code value NAME NUMBER}.
 *
 * <p>Arguments: the jar, the package.
 */
public final class CodecFacts
{
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
    private static final String DECODER = "Decoder";

    public static void main(final String[] arguments) throws IOException, ReflectiveOperationException
    {
        final String folder = "/" + arguments[1].replace('.', '/');
        final List<String> names = new ArrayList<>();
        try (var jar = FileSystems.newFileSystem(URI.create("jar:file:" + arguments[0]), Map.of());
            Stream<Path> files = Files.list(jar.getPath(folder)))
        {
            files.map((path) -> path.getFileName().toString())
                .filter((name) -> name.endsWith(".class") && !name.contains("$"))
                .map((name) -> name.substring(0, name.length() - ".class".length()))
                .sorted()
                .forEach(names::add);
        }
        for (final String name : names)
        {
            final Class<?> found = Class.forName(arguments[1] + "." + name);
            if (name.endsWith(DECODER))
            {
                describe(found, name.substring(0, name.length() - DECODER.length()));
            }
            else if (found.isEnum() && !name.equals("MetaAttribute"))
            {
                OUT.println("enum " + name);
                for (final Object value : found.getEnumConstants())
                {
                    OUT.println("value " + value + " " + found.getMethod("value").invoke(value));
                }
            }
        }
        OUT.flush();
    }

    private static void describe(final Class<?> decoder, final String name) throws ReflectiveOperationException
    {
        for (final String constant : List.of("TEMPLATE_ID", "BLOCK_LENGTH"))
        {
            if (Stream.of(decoder.getFields()).noneMatch((field) -> field.getName().equals(constant)))
            {
                return; // a composite, such as the header
            }
        }
        OUT.println("message " + name + " " + constant(decoder, "TEMPLATE_ID") + " " +
            constant(decoder, "BLOCK_LENGTH") + " " + constant(decoder, "SCHEMA_ID") + " " +
            constant(decoder, "SCHEMA_VERSION"));
        parts(decoder);
    }

    private static void parts(final Class<?> decoder) throws ReflectiveOperationException
    {
        final List<Method> fields = methods(decoder, "EncodingOffset");
        fields.sort((a, b) -> Integer.compare(number(a), number(b)));
        for (final Method method : fields)
        {
            final String field = name(method, "EncodingOffset");
            OUT.println("field " + field + " " + number(method) + " " +
                number(decoder.getMethod(field + "EncodingLength")) + " " + since(decoder, field) + " " +
                decoder.getMethod(field).getReturnType().getSimpleName() + " " + nullValue(decoder, field));
        }
        final List<Method> groups = methods(decoder, DECODER + "Id");
        groups.sort((a, b) -> Integer.compare(number(a), number(b)));
        for (final Method method : groups)
        {
            final String group = name(method, DECODER + "Id");
            final Class<?> entry = decoder.getMethod(group).getReturnType();
            OUT.println("group " + group + " " + number(entry.getMethod("sbeHeaderSize")) + " " +
                number(entry.getMethod("sbeBlockLength")) + " " + number(entry.getMethod("countMaxValue")) + " " +
                since(decoder, group + DECODER));
            parts(entry);
            OUT.println("end");
        }
        final List<Method> data = methods(decoder, "HeaderLength");
        data.sort((a, b) -> Integer.compare(id(decoder, a), id(decoder, b)));
        for (final Method method : data)
        {
            final String field = name(method, "HeaderLength");
            OUT.println("data " + field + " " + since(decoder, field));
        }
    }

    private static int since(final Class<?> decoder, final String part) throws ReflectiveOperationException
    {
        return number(decoder.getMethod(part + "SinceVersion"));
    }

    /**
     * A field whose null is not its primitive type's own has a type that is optional, even where its presence is not.
     */
    private static String nullValue(final Class<?> decoder, final String field) throws ReflectiveOperationException
    {
        final List<Method> found = methods(decoder, "NullValue");
        found.removeIf((method) -> !method.getName().equals(field + "NullValue"));
        if (found.isEmpty())
        {
            return "-"; // an enumeration
        }
        final Object value = found.get(0).invoke(null);
        final Method presence = Stream.of(decoder.getMethods())
            .filter((method) -> method.getName().equals(field + "MetaAttribute"))
            .findFirst()
            .orElseThrow();
        final Object attribute = Stream.of(presence.getParameterTypes()[0].getEnumConstants())
            .filter((constant) -> constant.toString().equals("PRESENCE"))
            .findFirst()
            .orElseThrow();
        return presence.invoke(null, attribute).equals("optional") || value.equals(0) ? value.toString() : "-";
    }

    private static List<Method> methods(final Class<?> decoder, final String suffix)
    {
        final List<Method> found = new ArrayList<>();
        for (final Method method : decoder.getMethods())
        {
            if (method.getName().endsWith(suffix) && method.getParameterCount() == 0)
            {
                found.add(method);
            }
        }
        return found;
    }

    private static String name(final Method method, final String suffix)
    {
        return method.getName().substring(0, method.getName().length() - suffix.length());
    }

    private static int id(final Class<?> decoder, final Method method)
    {
        try
        {
            return number(decoder.getMethod(name(method, "HeaderLength") + "Id"));
        }
        catch (final ReflectiveOperationException failure)
        {
            throw new IllegalStateException(failure);
        }
    }

    private static int number(final Method method)
    {
        try
        {
            return ((Number)method.invoke(null)).intValue();
        }
        catch (final ReflectiveOperationException failure)
        {
            throw new IllegalStateException(failure);
        }
    }

    private static Object constant(final Class<?> decoder, final String name) throws ReflectiveOperationException
    {
        return decoder.getField(name).get(null);
    }
}
