import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.stream.Collectors;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/*
 * kafka-clients against the broker at args[0]: prints TAP.
 */
public class ClientTest {
    static String bootstrap;
    static int run, failed;
    static final String BASE = "java-" + ProcessHandle.current().pid();

    interface Body {
        void run() throws Exception;
    }

    static void ok(boolean pass, String label) {
        run++;
        if (!pass) {
            failed++;
        }
        System.out.println((pass ? "ok " : "not ok ") + run + " - " + label);
    }

    static void is(Object got, Object want, String label) {
        boolean same = want.equals(got);
        ok(same, label);
        if (!same) {
            System.out.println("# got " + got + ", want " + want);
        }
    }

    static void part(String label, Body body) {
        try {
            body.run();
        } catch (Throwable e) {
            ok(false, label + ": " + e);
            e.printStackTrace(System.out);
        }
    }

    static Throwable cause(Body body) {
        try {
            body.run();
            return null;
        } catch (ExecutionException e) {
            return e.getCause();
        } catch (Exception e) {
            return e;
        }
    }

    static void failsWith(Class<?> type, String label, Body body) {
        Throwable t = cause(body);
        ok(t != null && type.isInstance(t), label);
        if (t == null || !type.isInstance(t)) {
            System.out.println("# got " + t);
        }
    }

    static Admin admin() {
        return Admin.create(Map.of("bootstrap.servers", bootstrap, "request.timeout.ms", "20000"));
    }

    static KafkaProducer<byte[], byte[]> producer(Object... more) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("linger.ms", "5");
        p.put("delivery.timeout.ms", "120000");
        p.put("request.timeout.ms", "20000");
        for (int i = 0; i < more.length; i += 2) {
            p.put(more[i], more[i + 1].toString());
        }
        return new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<byte[], byte[]> consumer(Object... more) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", "none");
        p.put("check.crcs", "true");
        p.put("allow.auto.create.topics", "false");
        for (int i = 0; i < more.length; i += 2) {
            p.put(more[i], more[i + 1].toString());
        }
        return new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static List<ConsumerRecord<byte[], byte[]>> read(KafkaConsumer<byte[], byte[]> c, int n) {
        List<ConsumerRecord<byte[], byte[]>> out = new ArrayList<>();
        long end = System.currentTimeMillis() + 120000;
        while (out.size() < n && System.currentTimeMillis() < end) {
            c.poll(Duration.ofMillis(500)).forEach(out::add);
        }
        return out;
    }

    static byte[] value(int i) {
        return ("value " + i + " " + "abcdefgh".repeat(i * 13 % 200)).getBytes(StandardCharsets.UTF_8);
    }

    static void topics() throws Exception {
        try (Admin a = admin()) {
            String t = BASE + "-admin";
            is(a.describeCluster().nodes().get().size(), 1, "one node");
            ok(a.describeCluster().clusterId().get().length() > 0, "a cluster id");
            ok(a.describeCluster().controller().get() != null, "a controller");

            a.createTopics(List.of(new NewTopic(t, 3, (short) 1)
                .configs(Map.of("retention.ms", "3600000")))).all().get();
            ok(a.listTopics().names().get().contains(t), "a created topic is listed");
            TopicDescription d = a.describeTopics(List.of(t)).allTopicNames().get().get(t);
            is(d.partitions().size(), 3, "its partitions");
            ok(!d.topicId().toString().equals("AAAAAAAAAAAAAAAAAAAAAA"), "its id");
            is(a.describeTopics(org.apache.kafka.common.TopicCollection.ofTopicIds(
                List.of(d.topicId()))).allTopicIds().get().get(d.topicId()).name(), t,
                "described by id");

            failsWith(TopicExistsException.class, "created twice", () ->
                a.createTopics(List.of(new NewTopic(t, 3, (short) 1))).all().get());
            failsWith(InvalidTopicException.class, "a bad name", () ->
                a.createTopics(List.of(new NewTopic("bad name", 1, (short) 1))).all().get());
            failsWith(InvalidConfigurationException.class, "a bad config", () ->
                a.createTopics(List.of(new NewTopic(t + "x", 1, (short) 1)
                    .configs(Map.of("no.such.config", "1")))).all().get());

            ConfigResource r = new ConfigResource(ConfigResource.Type.TOPIC, t);
            Config c = a.describeConfigs(List.of(r)).all().get().get(r);
            is(c.get("retention.ms").value(), "3600000", "a topic's own config");
            ok(!c.get("retention.ms").isDefault(), "is not a default");
            is(c.get("segment.bytes").value(), "1073741824", "and a default");
            ok(c.get("segment.bytes").isDefault(), "is one");
            ConfigResource b = new ConfigResource(ConfigResource.Type.BROKER,
                a.describeCluster().nodes().get().iterator().next().idString());
            ok(a.describeConfigs(List.of(b)).all().get().get(b).get("log.segment.bytes") != null,
                "the broker's configs");

            a.deleteTopics(List.of(t)).all().get();
            failsWith(UnknownTopicOrPartitionException.class, "deleted, then unknown", () ->
                a.describeTopics(List.of(t)).allTopicNames().get());
            failsWith(UnknownTopicOrPartitionException.class, "deleted twice", () ->
                a.deleteTopics(List.of(t)).all().get());
        }
    }

    static void codecs() throws Exception {
        for (boolean idempotent : new boolean[] {true, false}) {
            for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
                String label = codec + (idempotent ? ", idempotent" : ", plain");
                String t = BASE + "-" + codec + "-" + idempotent;
                part(label, () -> roundTrip(t, label, codec, idempotent));
            }
        }
    }

    static void roundTrip(String t, String label, String codec, boolean idempotent)
            throws Exception {
        int n = 2000;
        try (Admin a = admin()) {
            a.createTopics(List.of(new NewTopic(t, 1, (short) 1))).all().get();
        }
        TopicPartition tp = new TopicPartition(t, 0);
        try (KafkaProducer<byte[], byte[]> p = producer("compression.type", codec,
                "enable.idempotence", idempotent, "acks", idempotent ? "all" : "1")) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 0; i < n; i++) {
                sent.add(p.send(new ProducerRecord<>(t, 0, ("k" + i).getBytes(), value(i))));
            }
            boolean inOrder = true;
            for (int i = 0; i < n; i++) {
                inOrder &= sent.get(i).get().offset() == i;
            }
            ok(inOrder, label + ": offsets in order");
        }
        try (KafkaConsumer<byte[], byte[]> c = consumer()) {
            c.assign(List.of(tp));
            c.seekToBeginning(List.of(tp));
            List<ConsumerRecord<byte[], byte[]>> got = read(c, n);
            is(got.size(), n, label + ": all consumed");
            boolean same = true;
            for (int i = 0; i < got.size(); i++) {
                ConsumerRecord<byte[], byte[]> r = got.get(i);
                same &= r.offset() == i && java.util.Arrays.equals(r.value(), value(i))
                    && new String(r.key()).equals("k" + i);
            }
            ok(same, label + ": the same records");
            is(c.position(tp), (long) n, label + ": position");
            c.seek(tp, n - 3);
            is(read(c, 3).get(0).offset(), (long) n - 3, label + ": seek");
        }
    }

    static void times() throws Exception {
        String t = BASE + "-times";
        TopicPartition tp = new TopicPartition(t, 0);
        try (Admin a = admin();
             KafkaProducer<byte[], byte[]> p = producer("compression.type", "lz4");
             KafkaConsumer<byte[], byte[]> c = consumer()) {
            a.createTopics(List.of(new NewTopic(t, 1, (short) 1))).all().get();
            long base = System.currentTimeMillis() - 1000000;
            for (int i = 0; i < 100; i++) {
                p.send(new ProducerRecord<>(t, 0, base + i * 1000, null, value(i)));
            }
            p.flush();
            c.assign(List.of(tp));
            OffsetAndTimestamp o = c.offsetsForTimes(Map.of(tp, base + 41500)).get(tp);
            is(o.offset(), 42L, "the offset for a time");
            is(o.timestamp(), base + 42000, "and its timestamp");
            ok(c.offsetsForTimes(Map.of(tp, base + 999999999L)).get(tp) == null,
                "none after the last");
            is(c.endOffsets(Set.of(tp)).get(tp), 100L, "end offset");
            is(c.beginningOffsets(Set.of(tp)).get(tp), 0L, "beginning offset");
            c.seek(tp, o.offset());
            is(read(c, 58).get(0).timestamp(), base + 42000, "seek by time");
            ListOffsetsResult.ListOffsetsResultInfo m = a.listOffsets(Map.of(tp,
                OffsetSpec.maxTimestamp())).partitionResult(tp).get();
            is(m.offset(), 99L, "the offset of the greatest timestamp");
        }
    }

    static void shapes() throws Exception {
        String t = BASE + "-shapes";
        TopicPartition tp = new TopicPartition(t, 1);
        try (Admin a = admin();
             KafkaProducer<byte[], byte[]> p = producer("max.request.size", 5000000,
                 "buffer.memory", 64000000);
             KafkaConsumer<byte[], byte[]> c = consumer("fetch.max.bytes", 100,
                 "max.partition.fetch.bytes", 100)) {
            a.createTopics(List.of(new NewTopic(t, 2, (short) 1))).all().get();
            ProducerRecord<byte[], byte[]> r = new ProducerRecord<>(t, 1, null, null);
            r.headers().add("h", "x".getBytes()).add("null", null);
            is(p.send(r).get().offset(), 0L, "a record of nulls and headers");
            is(p.send(new ProducerRecord<>(t, 1, null, new byte[900000])).get().offset(), 1L,
                "a large one");
            failsWith(RecordTooLargeException.class, "too large a one", () ->
                p.send(new ProducerRecord<>(t, 1, null, new byte[2000000])).get());
            is(p.send(new ProducerRecord<>(t, 1, null, value(1))).get().offset(), 2L,
                "and the producer goes on");

            c.assign(List.of(tp));
            c.seekToBeginning(List.of(tp));
            List<ConsumerRecord<byte[], byte[]>> got = read(c, 3);
            is(got.size(), 3, "consumed past a batch above the limits");
            is(got.get(0).headers().toArray().length, 2, "headers");
            ok(got.get(0).value() == null, "a null value");
            is(got.get(1).value().length, 900000, "the large value");

            ok(p.partitionsFor(t).size() == 2, "partitionsFor");
        }
        try (KafkaProducer<byte[], byte[]> p = producer("acks", "0",
                "enable.idempotence", "false");
             KafkaConsumer<byte[], byte[]> c = consumer()) {
            for (int i = 0; i < 200; i++) {
                p.send(new ProducerRecord<>(t, 0, null, value(i)));
            }
            p.flush();
            TopicPartition zero = new TopicPartition(t, 0);
            c.assign(List.of(zero));
            c.seekToBeginning(List.of(zero));
            is(read(c, 200).size(), 200, "acks=0: all there");
        }
    }

    /* Several producers at once on several partitions, consumed by one. */
    static void many() throws Exception {
        String t = BASE + "-many";
        int partitions = 8, producers = 4, each = 1000;
        try (Admin a = admin()) {
            a.createTopics(List.of(new NewTopic(t, partitions, (short) 1))).all().get();
        }
        List<Thread> threads = new ArrayList<>();
        List<String> errors = Collections.synchronizedList(new ArrayList<>());
        for (int n = 0; n < producers; n++) {
            String key = "p" + n;
            Thread thread = new Thread(() -> {
                try (KafkaProducer<byte[], byte[]> p = producer()) {
                    List<Future<RecordMetadata>> sent = new ArrayList<>();
                    for (int i = 0; i < each; i++) {
                        sent.add(p.send(new ProducerRecord<>(t, i % partitions, key.getBytes(),
                            Integer.toString(i).getBytes())));
                    }
                    for (Future<RecordMetadata> f : sent) {
                        f.get();
                    }
                } catch (Exception e) {
                    errors.add(e.toString());
                }
            });
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        is(errors.toString(), "[]", "four producers at once");
        try (KafkaConsumer<byte[], byte[]> c = consumer()) {
            List<TopicPartition> tps = c.partitionsFor(t).stream()
                .map(i -> new TopicPartition(t, i.partition())).collect(Collectors.toList());
            c.assign(tps);
            c.seekToBeginning(tps);
            List<ConsumerRecord<byte[], byte[]>> got = read(c, producers * each);
            is(got.size(), producers * each, "all consumed");
            Map<String, Integer> last = new java.util.HashMap<>();
            boolean inOrder = true;
            for (ConsumerRecord<byte[], byte[]> r : got) {
                String k = new String(r.key()) + "/" + r.partition();
                int v = Integer.parseInt(new String(r.value()));
                inOrder &= last.getOrDefault(k, -1) < v;
                last.put(k, v);
            }
            ok(inOrder, "in order by producer and partition");
        }
    }

    public static void main(String[] args) {
        bootstrap = args[0];
        part("topics", ClientTest::topics);
        part("codecs", ClientTest::codecs);
        part("times", ClientTest::times);
        part("shapes", ClientTest::shapes);
        part("many", ClientTest::many);
        System.out.println("1.." + run);
        System.exit(failed == 0 ? 0 : 1);
    }
}
