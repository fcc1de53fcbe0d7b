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
 * What the generated decoders of a package of the jar say of their messages, by reflection: a line
 * {@code message NAME TEMPLATE BLOCK_LENGTH SCHEMA VERSION} for each, and below it its parts in the order of the
 * messages: {@code field NAME OFFSET LENGTH SINCE}, {@code data NAME SINCE}.
 *
 * <p>Arguments: the jar, the package.
 */
public final class CodecFacts
{
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.US_ASCII);

    public static void main(final String[] arguments) throws IOException, ReflectiveOperationException
    {
        final String folder = "/" + arguments[1].replace('.', '/');
        final List<String> names = new ArrayList<>();
        try (var jar = FileSystems.newFileSystem(URI.create("jar:file:" + arguments[0]), Map.of());
            Stream<Path> files = Files.list(jar.getPath(folder)))
        {
            files.map((path) -> path.getFileName().toString())
                .filter((name) -> name.endsWith("Decoder.class") && !name.contains("$"))
                .map((name) -> name.substring(0, name.length() - ".class".length()))
                .sorted()
                .forEach(names::add);
        }
        for (final String name : names)
        {
            describe(Class.forName(arguments[1] + "." + name), name.substring(0, name.length() - "Decoder".length()));
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
        final List<Method> fields = methods(decoder, "EncodingOffset");
        fields.sort((a, b) -> Integer.compare(number(a), number(b)));
        for (final Method method : fields)
        {
            final String field = field(method, "EncodingOffset");
            OUT.println("field " + field + " " + number(method) + " " +
                number(decoder.getMethod(field + "EncodingLength")) + " " +
                number(decoder.getMethod(field + "SinceVersion")));
        }
        final List<Method> data = methods(decoder, "HeaderLength");
        data.sort((a, b) -> Integer.compare(id(decoder, a), id(decoder, b)));
        for (final Method method : data)
        {
            final String field = field(method, "HeaderLength");
            OUT.println("data " + field + " " + number(decoder.getMethod(field + "SinceVersion")));
        }
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

    private static String field(final Method method, final String suffix)
    {
        return method.getName().substring(0, method.getName().length() - suffix.length());
    }

    private static int id(final Class<?> decoder, final Method method)
    {
        try
        {
            return number(decoder.getMethod(field(method, "HeaderLength") + "Id"));
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
