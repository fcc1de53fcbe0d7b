// Writes messages of versioned-composites.xml with the codecs that sbe-tool generated, and what is in them. See README.md.
import everlog.golden.versioned.*;
import java.util.Random;
import org.agrona.concurrent.UnsafeBuffer;

public final class WriteVersioned
{
    static final Random random = new Random(518);

    static String spot(final SpotEncoder spot)
    {
        final int x = random.nextInt();
        final StringBuilder json = new StringBuilder("{\"x\":" + x);
        spot.x(x);
        final boolean noY = random.nextInt(3) == 0; // since 1
        final int y = noY ? SpotEncoder.yNullValue() : random.nextInt(); // since 1
        spot.y(y); // since 1
        json.append(",\"y\":" + (noY ? "null" : "" + y)); // since 1
        json.append(",\"y\":null"); // before 1
        final short a = (short)random.nextInt(), b = (short)random.nextInt(); // since 1
        spot.inner().a(a); // since 1
        spot.inner().b(b); // since 2
        json.append(",\"inner\":null"); // before 1
        String last = "null"; // since 1
        last = "" + b; // since 2
        json.append(",\"inner\":{\"a\":" + a + ",\"b\":" + last + "}"); // since 1
        json.append(",\"price\":null,\"side\":null,\"fuel\":null,\"extras\":null"); // before 2
        json.append(newer(spot)); // since 2
        spot.late(random.nextLong()); // since 3
        return json.append("}").toString();
    }

    static String newer(final SpotEncoder spot) // since 2
    { // since 2
        final long mantissa = random.nextLong(); // since 2
        final byte exponent = (byte)random.nextInt(); // since 2
        spot.price().mantissa(mantissa).exponent(exponent); // since 2
        final Side side = Side.values()[random.nextInt(3)]; // since 2
        final Fuel fuel = Fuel.values()[random.nextInt(3)]; // since 2
        final boolean turbo = random.nextBoolean(); // since 2
        spot.side(side).fuel(fuel).extras().clear().turbo(turbo); // since 2
        return ",\"price\":{\"mantissa\":" + mantissa + ",\"exponent\":" + exponent + "},\"side\":" + name(side) + // since 2
            ",\"fuel\":" + name(fuel) + ",\"extras\":[" + (turbo ? "\"turbo\"" : "") + "]"; // since 2
    } // since 2

    static String name(final Enum<?> value)
    {
        return value.name().equals("NULL_VAL") ? "null" : "\"" + value.name() + "\"";
    }

    static void print(final int template, final UnsafeBuffer buffer, final int length, final CharSequence fields)
    {
        final StringBuilder hex = new StringBuilder();
        for (int k = 0; k < MessageHeaderEncoder.ENCODED_LENGTH + length; k++)
        {
            hex.append(String.format("%02x", buffer.getByte(k)));
        }
        System.out.println("{\"template_id\":" + template + ",\"version\":" + PlaceEncoder.SCHEMA_VERSION +
            ",\"payload\":\"" + hex + "\",\"fields\":{" + fields + "}}");
    }

    static void boxed(final int number)
    {
        final UnsafeBuffer buffer = new UnsafeBuffer(new byte[4096]);
        final BoxedEncoder boxed = new BoxedEncoder().wrapAndApplyHeader(buffer, 0, new MessageHeaderEncoder());
        boxed.number(number);
        String box = "null";
        final int height = random.nextInt(); // since 1
        box = "{\"height\":" + height + ",\"spot\":" + spot(boxed.box().height(height).spot()) + "}"; // since 1
        print(BoxedEncoder.TEMPLATE_ID, buffer, boxed.encodedLength(), "\"number\":" + number + ",\"box\":" + box);
    }

    public static void main(final String[] arguments)
    {
        for (int i = 0; i < Integer.parseInt(arguments[0]); i++)
        {
            final UnsafeBuffer buffer = new UnsafeBuffer(new byte[4096]);
            final PlaceEncoder place = new PlaceEncoder().wrapAndApplyHeader(buffer, 0, new MessageHeaderEncoder());
            place.number(i);
            final StringBuilder fields = new StringBuilder("\"number\":" + i + ",\"spot\":" + spot(place.spot()));
            final int count = random.nextInt(4);
            final PlaceEncoder.StepsEncoder steps = place.stepsCount(count);
            fields.append(",\"steps\":[");
            for (int k = 0; k < count; k++)
            {
                final short weight = (short)random.nextInt();
                steps.next().weight(weight);
                fields.append((k == 0 ? "" : ",") + "{\"weight\":" + weight + ",\"spot\":" + spot(steps.spot()) + "}");
            }
            place.note("note " + i);
            fields.append("],\"note\":\"note " + i + "\"");
            print(PlaceEncoder.TEMPLATE_ID, buffer, place.encodedLength(), fields);
            boxed(i);
        }
    }
}
