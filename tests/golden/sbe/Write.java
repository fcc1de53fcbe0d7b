// Writes messages with the codecs that sbe-tool generated, and what is in them as JSON, a line each. See README.md.
import java.util.*;
import org.agrona.concurrent.UnsafeBuffer;
import everlog.golden.*;

public final class Write
{
    static final Random random = new Random(517);
    static final StringBuilder json = new StringBuilder();

    static void put(final String name, final Object value)
    {
        final char last = json.charAt(json.length() - 1);
        json.append(last == '{' || last == '[' ? "" : ",");
        json.append(name == null ? "" : "\"" + name + "\":");
        if (value instanceof String)
        {
            json.append('"');
            for (final char c : ((String)value).toCharArray())
            {
                json.append(c < 32 || c > 126 || c == '"' || c == '\\' ? String.format("\\u%04x", (int)c) : "" + c);
            }
            json.append('"');
        }
        else
        {
            json.append(value);
        }
    }

    static void open(final String name, final String bracket)
    {
        put(name, new StringBuilder(bracket));
    }

    static void close(final String bracket)
    {
        json.append(bracket);
    }

    static boolean maybe()
    {
        return random.nextInt(3) == 0;
    }

    static String ascii(final int most)
    {
        final StringBuilder text = new StringBuilder();
        for (int i = random.nextInt(most + 1); i > 0; i--)
        {
            text.append((char)(33 + random.nextInt(90)));
        }
        return text.toString();
    }

    static long unsigned(final int bits)
    {
        return random.nextLong() >>> (64 - bits);
    }

    static StringBuilder number(final long value)
    {
        return new StringBuilder(Long.toUnsignedString(value));
    }

    static Object side(final Side side)
    {
        return side == Side.NULL_VAL ? null : side.name();
    }

    static void motor(final String name, final MotorEncoder motor)
    {
        open(name, "{");
        final int capacity = (int)unsigned(16), cylinders = (int)unsigned(8);
        motor.capacity(capacity).cylinders((short)cylinders);
        put("capacity", capacity);
        put("cylinders", cylinders);
        put("maxRpm", 9000);
        final Letter letter = maybe() ? Letter.NULL_VAL : maybe() ? Letter.ALPHA : Letter.BETA;
        motor.letter(letter);
        put("letter", letter == Letter.NULL_VAL ? null : letter.name());
        final Fuel fuel = maybe() ? Fuel.NULL_VAL : maybe() ? Fuel.DIESEL : Fuel.PETROL;
        motor.fuel(fuel);
        put("fuel", fuel == Fuel.NULL_VAL ? null : fuel.name());
        final boolean turbo = maybe();
        motor.extras().clear().turbo(turbo);
        open("extras", "[");
        if (turbo)
        {
            put(null, "turbo");
        }
        close("]");
        open("booster", "{");
        final String label = ascii(3);
        final long power = unsigned(32);
        motor.booster().label(label).power(power);
        put("label", label);
        put("power", power);
        close("}");
        decimal("price", motor.price());
        close("}");
    }

    static void decimal(final String name, final DecimalEncoder decimal)
    {
        final long mantissa = random.nextLong();
        final byte exponent = (byte)random.nextInt();
        decimal.mantissa(mantissa).exponent(exponent);
        open(name, "{");
        put("mantissa", mantissa);
        put("exponent", exponent);
        close("}");
    }

    static int everything(final UnsafeBuffer buffer)
    {
        final EverythingEncoder m = new EverythingEncoder().wrapAndApplyHeader(buffer, 0, new MessageHeaderEncoder());
        final long time = random.nextLong();
        m.time(time);
        put("time", number(time));
        final byte signed8 = (byte)random.nextInt();
        final short signed16 = (short)random.nextInt();
        final int signed32 = random.nextInt(), unsigned16 = (int)unsigned(16);
        final long unsigned32 = unsigned(32);
        m.signed8(signed8).signed16(signed16).signed32(signed32).unsigned16(unsigned16).unsigned32(unsigned32);
        put("signed8", signed8);
        put("signed16", signed16);
        put("signed32", signed32);
        put("unsigned16", unsigned16);
        put("unsigned32", unsigned32);
        final boolean noPrice = maybe(), noOdd = maybe(), noMaybe = maybe(), noRatio = maybe(), noWide = maybe();
        final long price = random.nextLong();
        m.price(noPrice ? EverythingEncoder.priceNullValue() : price);
        put("price", noPrice ? null : price);
        final int odd = random.nextInt();
        m.odd(noOdd ? EverythingEncoder.oddNullValue() : odd);
        put("odd", noOdd ? null : odd);
        final int maybe8 = random.nextInt(255);
        m.maybe8(noMaybe ? EverythingEncoder.maybe8NullValue() : (short)maybe8);
        put("maybe8", noMaybe ? null : maybe8);
        final float ratio = random.nextFloat() * 1e6f;
        m.ratio(noRatio ? EverythingEncoder.ratioNullValue() : ratio);
        put("ratio", noRatio ? null : (Object)(double)ratio);
        final double wide = random.nextGaussian() * 1e200;
        m.wide(noWide ? EverythingEncoder.wideNullValue() : wide);
        put("wide", noWide ? null : wide);
        final char plain = (char)(33 + random.nextInt(90));
        m.letterPlain((byte)plain);
        put("letterPlain", "" + plain);
        final String code = ascii(6);
        m.code(code);
        put("code", code);
        final String latin = "\u00e9\u00fc" + (maybe() ? "x" : "\u00ff\u00a7");
        m.latin(latin);
        put("latin", latin);
        open("series", "[");
        for (int i = 0; i < 3; i++)
        {
            final long item = unsigned(32);
            m.series(i, item);
            put(null, item);
        }
        close("]");
        open("digest", "[");
        for (int i = 0; i < 5; i++)
        {
            final int item = (int)unsigned(8);
            m.digest(i, (short)item);
            put(null, item);
        }
        close("]");
        second(m);
        return MessageHeaderEncoder.ENCODED_LENGTH + m.encodedLength();
    }

    static void second(final EverythingEncoder m)
    {
        final Side side = maybe() ? Side.NULL_VAL : maybe() ? Side.BUY : Side.SELL;
        m.side(side);
        put("side", side(side));
        final Letter letter = maybe() ? Letter.NULL_VAL : Letter.BETA;
        m.letter(letter);
        put("letter", letter == Letter.NULL_VAL ? null : "BETA");
        final Depth depth = maybe() ? Depth.NULL_VAL : maybe() ? Depth.LOW : Depth.HIGH;
        m.depth(depth);
        put("depth", depth == Depth.NULL_VAL ? null : depth.name());
        final boolean a = maybe(), b = maybe(), c = maybe();
        m.flags().clear().urgent(a).hidden(b).last(c);
        open("flags", "[");
        if (a) put(null, "urgent");
        if (b) put(null, "hidden");
        if (c) put(null, "last");
        close("]");
        m.wideFlags().clear().first(b).top(a);
        open("wideFlags", "[");
        if (b) put(null, "first");
        if (a) put(null, "top");
        close("]");
        put("cap", 9000);
        put("maker", "Acme!");
        put("fixedSide", "SELL");
        motor("motor", m.motor());
        decimal("total", m.total());
        put("added1", null); // before 1
        final boolean noAdded = maybe(); // since 1
        final long added1 = unsigned(31); // since 1
        m.added1(noAdded ? EverythingEncoder.added1NullValue() : added1); // since 1
        put("added1", noAdded ? null : added1); // since 1
        put("pair2", null); // before 2
        put("side2", null); // before 2
        m.pair2().left(41).right(-5); // since 2
        open("pair2", "{"); // since 2
        put("left", 41); // since 2
        put("right", -5); // since 2
        close("}"); // since 2
        m.side2(side); // since 2
        put("side2", side(side)); // since 2
        m.added3(77); // since 3
        groups(m);
    }

    static void groups(final EverythingEncoder m)
    {
        final int count = random.nextInt(4);
        final EverythingEncoder.LegsEncoder legs = m.legsCount(count);
        open("legs", "[");
        for (int i = 0; i < count; i++)
        {
            legs.next();
            open(null, "{");
            final long quantity = random.nextLong();
            final Side side = maybe() ? Side.BUY : Side.SELL;
            legs.quantity(quantity).side(side);
            put("quantity", quantity);
            put("side", side.name());
            legs.extra(5); // since 3
            fills(legs);
            final int tags = random.nextInt(3);
            final EverythingEncoder.LegsEncoder.TagsEncoder tag = legs.tagsCount(tags);
            open("tags", "[");
            for (int k = 0; k < tags; k++)
            {
                final String text = ascii(6);
                tag.next().tag(text);
                open(null, "{");
                put("tag", text);
                close("}");
            }
            close("]");
            final String venue = "\u00e9\u4e2d" + ascii(9);
            legs.venue(venue);
            put("venue", venue);
            close("}");
        }
        close("]");
        put("levels", null); // before 1
        levels(m); // since 1
        final byte[] raw = new byte[random.nextInt(250)];
        random.nextBytes(raw);
        m.putRaw(raw, 0, raw.length);
        put("raw", Base64.getEncoder().encodeToString(raw));
        final String comment = ascii(20), text = maybe() ? "" : "\u20ac " + ascii(300);
        m.comment(comment).text(text);
        put("comment", comment);
        put("text", text);
        put("added", null); // before 1
        m.added(comment); // since 1
        put("added", comment); // since 1
    }

    static void levels(final EverythingEncoder m) // since 1
    { // since 1
        final int count = random.nextInt(5); // since 1
        final EverythingEncoder.LevelsEncoder levels = m.levelsCount(count); // since 1
        open("levels", "["); // since 1
        for (int i = 0; i < count; i++) // since 1
        { // since 1
            levels.next(); // since 1
            open(null, "{"); // since 1
            decimal("level", levels.level()); // since 1
            close("}"); // since 1
        } // since 1
        close("]"); // since 1
    } // since 1

    static void fills(final EverythingEncoder.LegsEncoder legs)
    {
        final int count = random.nextInt(3);
        final EverythingEncoder.LegsEncoder.FillsEncoder fills = legs.fillsCount(count);
        open("fills", "[");
        for (int k = 0; k < count; k++)
        {
            fills.next();
            open(null, "{");
            final long amount = unsigned(32);
            final boolean noPrice = maybe();
            final long price = random.nextLong();
            fills.amount(amount).price(noPrice ? EverythingEncoder.LegsEncoder.FillsEncoder.priceNullValue() : price);
            put("amount", amount);
            put("price", noPrice ? null : price);
            final String note = ascii(7);
            fills.note(note);
            put("note", note);
            close("}");
        }
        close("]");
    }

    static int small(final UnsafeBuffer buffer)
    {
        final SmallEncoder m = new SmallEncoder().wrapAndApplyHeader(buffer, 0, new MessageHeaderEncoder());
        final long a = random.nextLong(), b = random.nextLong(), d = unsigned(32), e = random.nextLong();
        final int c = random.nextInt(), h = random.nextInt(65535);
        final double f = random.nextGaussian();
        final short g = (short)random.nextInt();
        final boolean noE = maybe(), noH = maybe();
        m.a(a).b(b).c(c).d(d).e(noE ? SmallEncoder.eNullValue() : e).f(f).g(g).h(noH ? SmallEncoder.hNullValue() : h);
        put("a", a);
        put("b", b);
        put("c", c);
        put("d", d);
        put("e", noE ? null : e);
        put("f", f);
        put("g", g);
        put("h", noH ? null : h);
        return MessageHeaderEncoder.ENCODED_LENGTH + m.encodedLength();
    }

    static int empty(final UnsafeBuffer buffer)
    {
        final EmptyEncoder m = new EmptyEncoder().wrapAndApplyHeader(buffer, 0, new MessageHeaderEncoder());
        return MessageHeaderEncoder.ENCODED_LENGTH + m.encodedLength();
    }

    public static void main(final String[] arguments)
    {
        final int count = Integer.parseInt(arguments[0]);
        for (int i = 0; i < count; i++)
        {
            final UnsafeBuffer buffer = new UnsafeBuffer(new byte[1 << 16]);
            json.setLength(0);
            json.append("{");
            open("fields", "{");
            final String name = i == 0 ? "Empty" : i % 3 == 1 ? "Small" : "Everything";
            final int length = i == 0 ? empty(buffer) : i % 3 == 1 ? small(buffer) : everything(buffer);
            close("}");
            final StringBuilder hex = new StringBuilder();
            for (int k = 0; k < length; k++)
            {
                hex.append(String.format("%02x", buffer.getByte(k)));
            }
            put("template", name);
            put("payload", hex.toString());
            close("}");
            System.out.println(json);
        }
    }
}
