/*
 * What kafka-clients itself says about its messages, by reflection.
 *
 *   java -cp JAR KafkaMessages.java dump   < LIST    schemas as text
 *   java -cp JAR KafkaMessages.java golden < LIST    encoded samples as hex
 *
 * LIST has lines "NAME KIND MIN MAX" (kind: request, response or data), as
 * check-schema makes them from our own schema files.
 */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.record.internal.BaseRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;

public class KafkaMessages {

    static final String PACKAGE = "org.apache.kafka.common.message.";

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(
            new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        String line;

        while ((line = in.readLine()) != null) {
            String[] w = line.trim().split(" ");
            String suffix = w[1].equals("request") ? "RequestData"
                          : w[1].equals("response") ? "ResponseData" : "";
            Class<?> type = Class.forName(PACKAGE + w[0] + suffix);
            Schema[] schemas = (Schema[]) type.getField("SCHEMAS").get(null);

            for (int v = Integer.parseInt(w[2]); v <= Integer.parseInt(w[3]);
                 v++)
            {
                String head = w[0] + " " + w[1] + " " + v;
                Schema schema = v < schemas.length ? schemas[v] : null;

                if (schema == null) {
                    out.append(head).append(" is not in kafka-clients\n");

                } else if (args[0].equals("dump")) {
                    out.append(head).append(flexible(schema) ? " flexible" : "")
                       .append('\n');
                    dump(out, schema, create(type), "  ");

                } else {
                    for (boolean full : new boolean[] { true, false }) {
                        Message m = (Message) create(type);
                        fill(schema, m, 0, full);
                        out.append(head).append(full ? " full " : " bare ")
                           .append(encode(m, (short) v)).append('\n');
                    }
                }
            }
        }

        System.out.print(out);
    }

    static Object create(Class<?> type) throws Exception {
        Constructor<?> c = type.getDeclaredConstructor();

        c.setAccessible(true);
        return c.newInstance();
    }

    static boolean flexible(Schema schema) {
        for (BoundField f : schema.fields()) {
            if (f.def.type instanceof TaggedFields) {
                return true;
            }
        }
        return false;
    }

    /* Kafka writes fields' names in lower case with underscores. */
    static String snake(String camel) {
        return camel.replaceAll("([a-z0-9])([A-Z])", "$1_$2").toLowerCase();
    }

    static Field member(Object owner, String name) throws Exception {
        for (Field f : owner.getClass().getDeclaredFields()) {
            if (!Modifier.isStatic(f.getModifiers())
                && snake(f.getName()).equals(name))
            {
                f.setAccessible(true);
                return f;
            }
        }
        throw new Exception("no member " + name + " in " + owner.getClass());
    }

    /* A type, with what is around it taken off. */
    static class Shape {
        String text = "";
        boolean array;
        boolean nullable;
        Schema struct;

        Shape(org.apache.kafka.common.protocol.types.Type type) {
            Optional<org.apache.kafka.common.protocol.types.Type> element =
                type.arrayElementType();

            nullable = type.isNullable();

            if (element.isPresent()) {
                array = true;
                text = type.getClass().getSimpleName().startsWith("Compact")
                     ? "COMPACT_ARRAY" : "ARRAY";
                text += (nullable ? "?" : "") + " ";
                type = element.get();
            }

            if (type instanceof Schema) {
                struct = (Schema) type;
                text += !array && nullable ? "STRUCT?" : "STRUCT";
            } else {
                text += type.toString();
            }
        }
    }

    /* The class of an array's elements or of a struct. */
    static Class<?> element(Field f) throws Exception {
        Type t = f.getGenericType();

        if (t instanceof ParameterizedType) {
            return (Class<?>) ((ParameterizedType) t)
                   .getActualTypeArguments()[0];
        }

        /* XCollection extends ImplicitLinkedHashMultiCollection<X> */
        if (Collection.class.isAssignableFrom(f.getType())) {
            t = f.getType().getGenericSuperclass();
            return (Class<?>) ((ParameterizedType) t)
                   .getActualTypeArguments()[0];
        }

        return f.getType();
    }

    static String value(Object v) {
        if (v == null || v instanceof BaseRecords) {
            return "null";
        }
        if (v instanceof Collection) {
            return "[]";
        }
        if (v instanceof String || v instanceof byte[]
            || v instanceof ByteBuffer)
        {
            return "\"\"";
        }
        if (v instanceof Uuid) {
            return v.equals(Uuid.ZERO_UUID) ? "0" : v.toString();
        }
        if (v instanceof Number || v instanceof Boolean) {
            return v.toString();
        }
        return "{}";
    }

    static void dump(StringBuilder out, Schema schema, Object owner,
        String indent) throws Exception
    {
        for (BoundField f : schema.fields()) {
            if (f.def.type instanceof TaggedFields) {
                for (Map.Entry<Integer,
                     org.apache.kafka.common.protocol.types.Field> e
                     : new TreeMap<>(((TaggedFields) f.def.type).fields())
                       .entrySet())
                {
                    dump(out, "tag " + e.getKey() + " ", e.getValue(), owner,
                         indent);
                }
            } else {
                dump(out, "", f.def, owner, indent);
            }
        }
    }

    static void dump(StringBuilder out, String tag,
        org.apache.kafka.common.protocol.types.Field f, Object owner,
        String indent) throws Exception
    {
        Shape shape = new Shape(f.type);
        Field member = member(owner, f.name);

        out.append(indent).append(tag).append(f.name).append(' ')
           .append(shape.text).append(" default ")
           .append(value(member.get(owner))).append('\n');

        if (shape.struct != null) {
            dump(out, shape.struct, create(element(member)), indent + "  ");
        }
    }

    /*
     * Samples: every value follows from its field's name and its place in the
     * array, so that a reader can tell whether it has read the right field.
     * The bare sample has nulls, no tagged fields and one element per array.
     */
    static int seed(String name, int index) {
        int h = 0x811c9dc5;

        for (byte b : name.getBytes(StandardCharsets.UTF_8)) {
            h = (h ^ (b & 0xff)) * 0x01000193;
        }
        return h + index;
    }

    static byte[] text(String name, int index) {
        return (name + index).getBytes(StandardCharsets.UTF_8);
    }

    static Object sample(Class<?> type, String name, int index) {
        int s = seed(name, index);

        if (type == boolean.class || type == Boolean.class) {
            return (s & 1) != 0;
        }
        if (type == byte.class || type == Byte.class) {
            return (byte) s;
        }
        if (type == short.class || type == Short.class) {
            return (short) s;
        }
        if (type == int.class || type == Integer.class) {
            return s;
        }
        if (type == long.class || type == Long.class) {
            return (long) s << 32 | (s & 0xffffffffL);
        }
        if (type == double.class || type == Double.class) {
            return (double) s;
        }
        if (type == String.class) {
            return new String(text(name, index), StandardCharsets.UTF_8);
        }
        if (type == byte[].class) {
            return text(name, index);
        }
        if (type == ByteBuffer.class) {
            return ByteBuffer.wrap(text(name, index));
        }
        if (type == Uuid.class) {
            long half = (long) s << 32 | (s & 0xffffffffL);
            return new Uuid(half, half);
        }
        if (BaseRecords.class.isAssignableFrom(type)) {
            return MemoryRecords.readableRecords(
                ByteBuffer.wrap(text(name, index)));
        }
        throw new IllegalArgumentException(type + " " + name);
    }

    static void fill(Schema schema, Object owner, int index, boolean full)
        throws Exception
    {
        for (BoundField f : schema.fields()) {
            if (!(f.def.type instanceof TaggedFields)) {
                fill(f.def, owner, index, full);
            } else if (full) {
                for (org.apache.kafka.common.protocol.types.Field t
                     : ((TaggedFields) f.def.type).fields().values())
                {
                    fill(t, owner, index, true);
                }
            }
        }
    }

    @SuppressWarnings("unchecked")
    static void fill(org.apache.kafka.common.protocol.types.Field f,
        Object owner, int index, boolean full) throws Exception
    {
        Shape shape = new Shape(f.type);
        Field member = member(owner, f.name);
        boolean records = BaseRecords.class.isAssignableFrom(member.getType());

        if (!full && (shape.nullable || records)) {
            member.set(owner, null);
            return;
        }

        if (shape.array) {
            Collection<Object> all = List.class == member.getType()
                ? new ArrayList<>()
                : (Collection<Object>) create(member.getType());

            for (int i = 0; i < (full ? 2 : 1); i++) {
                Class<?> type = element(member);
                if (shape.struct != null) {
                    Object e = create(type);
                    fill(shape.struct, e, i, full);
                    all.add(e);
                } else {
                    all.add(sample(type, f.name, i));
                }
            }
            member.set(owner, all);

        } else if (shape.struct != null) {
            Object e = create(element(member));
            fill(shape.struct, e, index, full);
            member.set(owner, e);

        } else {
            member.set(owner, sample(member.getType(), f.name, index));
        }
    }

    static String encode(Message m, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buf = ByteBuffer.allocate(m.size(cache, version));
        StringBuilder hex = new StringBuilder();

        m.write(new ByteBufferAccessor(buf), cache, version);
        buf.flip();

        while (buf.hasRemaining()) {
            hex.append(String.format("%02x", buf.get() & 0xff));
        }
        return hex.toString();
    }
}
