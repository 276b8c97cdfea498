import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts words exactly once, and shows that it did.
 *
 * <pre>
 * WordCount app BOOTSTRAP NAME DIR   an instance; its states on stdout
 * WordCount load BOOTSTRAP NAME      writes lines until it is told "stop";
 *                                    then "sent N", the words
 * WordCount check BOOTSTRAP NAME N   waits until N words are counted: "all
 *                                    counted"; told "stop", prints TAP
 * </pre>
 *
 * Topics are NAME-lines and NAME-counts.  There is no cache, so each word that
 * is read is one record in each of the topics behind: the counts of a word are
 * 1, 2, 3, …, without gap and repeat.  Lines on stdin; its end is "stop".
 */
public class WordCount {
    static final String[] WORDS = new String[40];

    static String bootstrap, name;
    static int run, failed;

    static {
        for (int i = 0; i < WORDS.length; i++) {
            WORDS[i] = "word" + i;
        }
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static void ok(boolean pass, String label) {
        run++;
        failed += pass ? 0 : 1;
        say((pass ? "ok " : "not ok ") + run + " - " + label);
    }

    static void is(Object got, Object want, String label) {
        ok(want.equals(got), label);
        if (!want.equals(got)) {
            say("# got " + got + ", want " + want);
        }
    }

    /** Until stdin says "stop" or ends. */
    static void waitForStop() throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = in.readLine()) != null && !line.trim().equals("stop")) {
            say("# what is \"" + line + "\"?");
        }
    }

    // ---- the application

    static void app(String dir) throws Exception {
        var b = new StreamsBuilder();
        b.stream(name + "-lines").flatMapValues(
                line -> Arrays.asList(((String) line).split(" ")))
            .groupBy((k, word) -> word, Grouped.as("words"))
            .count(Materialized.as("totals"))
            .toStream()
            .to(name + "-counts", Produced.valueSerde(Serdes.Long()));

        var p = new Properties();
        p.put(StreamsConfig.APPLICATION_ID_CONFIG, name);
        p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        p.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG,
            StreamsConfig.EXACTLY_ONCE_V2);
        p.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "classic");
        p.put(StreamsConfig.STATE_DIR_CONFIG, dir);
        p.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1);
        p.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG,
            Serdes.StringSerde.class);
        p.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG,
            Serdes.StringSerde.class);
        p.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        // so that a transaction mostly has records while it is open
        p.put(StreamsConfig.producerPrefix(ProducerConfig.LINGER_MS_CONFIG), 5);
        p.put(StreamsConfig.REPARTITION_PURGE_INTERVAL_MS_CONFIG, 1000);
        p.put(StreamsConfig.consumerPrefix(
            ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        p.put(StreamsConfig.mainConsumerPrefix(
            ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 3000);
        p.put(StreamsConfig.mainConsumerPrefix(
            ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG), 300);

        var streams = new KafkaStreams(b.build(), p);
        streams.setStateListener((to, from) -> say("state " + to));
        streams.setUncaughtExceptionHandler(e -> {
            for (Throwable t = e; t != null; t = t.getCause()) {
                say("problem " + t);
            }
            return StreamsUncaughtExceptionHandler
                .StreamThreadExceptionResponse.REPLACE_THREAD;
        });

        streams.start();
        waitForStop();
        say("closed " + streams.close(Duration.ofSeconds(120)));
    }

    // ---- its input

    static void load() throws Exception {
        var p = new Properties();
        p.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        p.put(ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, 600000);
        p.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, 600000);
        p.put(ProducerConfig.REQUEST_TIMEOUT_MS_CONFIG, 10000);

        var random = new Random(1);
        var words = new AtomicLong();
        var stop = new boolean[1];

        var thread = new Thread(() -> {
            try {
                waitForStop();
            } catch (Exception e) {
                say("problem " + e);
            }
            stop[0] = true;
        });
        thread.setDaemon(true);
        thread.start();

        try (var producer = new KafkaProducer<>(p, new StringSerializer(),
                new StringSerializer())) {
            for (int line = 0; !stop[0]; line++) {
                int n = 1 + random.nextInt(5);
                var text = new StringBuilder();
                for (int i = 0; i < n; i++) {
                    text.append(i == 0 ? "" : " ")
                        .append(WORDS[random.nextInt(WORDS.length)]);
                }
                producer.send(new ProducerRecord<>(name + "-lines",
                    "line" + line, text.toString()), (sent, e) -> {
                        if (e != null) {
                            say("problem " + e);
                        } else {
                            words.addAndGet(n);
                        }
                    });
                Thread.sleep(10);
            }
            producer.flush();
        }
        say("sent " + words.get());
    }

    // ---- the proof

    static KafkaConsumer<String, byte[]> consumer(String isolation) {
        var p = new Properties();
        p.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        p.put(ConsumerConfig.GROUP_ID_CONFIG, name);
        p.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
        p.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        p.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, isolation);
        return new KafkaConsumer<>(p, new StringDeserializer(),
            new ByteArrayDeserializer());
    }

    static List<TopicPartition> partitions(KafkaConsumer<?, ?> c, String t) {
        var out = new ArrayList<TopicPartition>();
        c.partitionsFor(t).forEach(
            i -> out.add(new TopicPartition(t, i.partition())));
        return out;
    }

    static long sum(Map<TopicPartition, Long> offsets) {
        return offsets.values().stream().mapToLong(Long::longValue).sum();
    }

    /** All that there is, from the beginning to the ends of now. */
    static List<ConsumerRecord<String, byte[]>> all(String topic,
            String isolation) {
        var out = new ArrayList<ConsumerRecord<String, byte[]>>();
        try (var c = consumer(isolation)) {
            var parts = partitions(c, topic);
            var ends = c.endOffsets(parts);
            c.assign(parts);
            c.seekToBeginning(parts);
            while (!parts.stream().allMatch(
                    tp -> c.position(tp) >= ends.get(tp))) {
                c.poll(Duration.ofMillis(200)).forEach(out::add);
            }
        }
        return out;
    }

    static long count(byte[] value) {
        return new LongDeserializer().deserialize("", value);
    }

    /** The last count of each word, if all of them are 1, 2, 3, … */
    static Map<String, Long> counts(String topic, String label) {
        var last = new TreeMap<String, Long>();
        int wrong = 0;
        for (var r : all(topic, "read_committed")) {
            long n = count(r.value()), before = last.getOrDefault(r.key(), 0L);
            if (n != before + 1 && wrong++ < 5) {
                say("# " + topic + "-" + r.partition() + ", offset "
                    + r.offset() + ": " + r.key() + " " + n + " after "
                    + before);
            }
            last.put(r.key(), n);
        }
        is(wrong, 0, label + ": each count once, in order");
        return last;
    }

    static void check(long sent) throws Exception {
        try (var c = consumer("read_committed")) {
            var parts = partitions(c, name + "-counts");
            c.assign(parts);
            c.seekToBeginning(parts);
            var last = new HashMap<String, Long>();
            while (last.values().stream().mapToLong(Long::longValue).sum()
                    < sent) {
                c.poll(Duration.ofMillis(200)).forEach(
                    r -> last.put(r.key(), count(r.value())));
            }
        }
        say("all counted");
        waitForStop();

        var expected = new TreeMap<String, Long>();
        for (var r : all(name + "-lines", "read_uncommitted")) {
            for (var word : new String(r.value()).split(" ")) {
                expected.merge(word, 1L, Long::sum);
            }
        }
        is(expected.values().stream().mapToLong(Long::longValue).sum(), sent,
            "the input is what was sent");

        String repartition = name + "-words-repartition";
        String changelog = name + "-totals-changelog";

        is(counts(name + "-counts", "output"), expected, "output: the counts");
        is(counts(changelog, "changelog"), expected, "changelog: the counts");

        try (var c = consumer("read_committed")) {
            var lines = partitions(c, name + "-lines");
            var committed = c.committed(new HashSet<>(lines));
            is(committed.values().stream()
                .mapToLong(OffsetAndMetadata::offset).sum(),
                sum(c.endOffsets(lines)), "offsets: all of the input");

            var words = partitions(c, repartition);
            ok(sum(c.beginningOffsets(words)) > 0,
                "what was read of the repartition topic is deleted");

            var counts = partitions(c, name + "-counts");
            try (var u = consumer("read_uncommitted")) {
                is(sum(c.endOffsets(counts)), sum(u.endOffsets(counts)),
                    "no transaction is open");
            }
        }

        int aborted = all(name + "-counts", "read_uncommitted").size()
            - (int) sent;
        ok(aborted > 0, "records of aborted transactions were not seen");
        say("# " + sent + " words, " + aborted + " aborted counts");
        say("1.." + run);
    }

    public static void main(String[] args) throws Exception {
        bootstrap = args[1];
        name = args[2];
        switch (args[0]) {
        case "app" -> app(args[3]);
        case "load" -> load();
        case "check" -> check(Long.parseLong(args[3]));
        default -> throw new IllegalArgumentException(args[0]);
        }
        System.exit(failed == 0 ? 0 : 1);
    }
}
