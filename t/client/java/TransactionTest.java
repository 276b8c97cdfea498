import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Exactly once by hand, of kafka-clients of any version since 2.5, against the
 * broker at args[0]: zombies, and crashes between the offsets and the end of
 * their transaction.  Prints TAP.  Where the broker has to crash it prints
 * "please HOW" and goes on when stdin has a line.
 *
 * A round has a topic of its own with one record, which a consumer of a group
 * reads and a producer answers: "NAME saw RECORD".
 */
public class TransactionTest {
    static final BufferedReader STDIN
        = new BufferedReader(new InputStreamReader(System.in));
    static final long PID = ProcessHandle.current().pid();

    static String bootstrap;
    static int run, failed, rounds;

    // ---- TAP

    static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static void ok(boolean pass, String label) {
        run++;
        failed += pass ? 0 : 1;
        say((pass ? "ok " : "not ok ") + run + " - " + label);
    }

    static void is(Object got, Object want, String label) {
        boolean same = want == null ? got == null : want.equals(got);
        ok(same, label);
        if (!same) {
            say("# got " + got + ", want " + want);
        }
    }

    interface Body {
        void run() throws Exception;
    }

    static void fails(String label, Body body, Class<?>... with) {
        try {
            body.run();
            ok(false, label);
            say("# it did not fail");
        } catch (Exception e) {
            var causes = new ArrayList<Throwable>();
            for (Throwable t = e; t != null; t = t.getCause()) {
                causes.add(t);
            }
            boolean right = causes.stream().anyMatch(
                t -> Set.of(with).contains(t.getClass()));
            ok(right, label);
            if (!right) {
                say("# " + causes);
            }
        }
    }

    static void please(String how) throws Exception {
        say("please " + how);
        STDIN.readLine();
    }

    // ---- one round: a topic, a group, its members

    static class Round implements AutoCloseable {
        final String base = "round" + rounds++ + "-" + PID;
        final String in = base + "-in", out = base + "-out", group = base;
        final TopicPartition from = new TopicPartition(in, 0);
        final List<AutoCloseable> clients = new ArrayList<>();

        Round() throws Exception {
            try (var admin = admin()) {
                admin.createTopics(List.of(new NewTopic(in, 1, (short) 1),
                    new NewTopic(out, 2, (short) 1))).all().get();
            }
            try (var p = new KafkaProducer<>(properties(),
                    new StringSerializer(), new StringSerializer())) {
                p.send(new ProducerRecord<>(in, 0, null, "a")).get();
            }
        }

        Admin admin() {
            return Admin.create(properties());
        }

        Properties properties(Object... more) {
            var p = new Properties();
            p.put("bootstrap.servers", bootstrap);
            p.put("reconnect.backoff.max.ms", 200);
            for (int i = 0; i < more.length; i += 2) {
                p.put(more[i], more[i + 1]);
            }
            return p;
        }

        KafkaConsumer<String, String> consumer(Object... more) {
            var p = properties("group.id", group, "enable.auto.commit", false,
                "auto.offset.reset", "earliest", "isolation.level",
                "read_committed", "heartbeat.interval.ms", 200);
            p.putAll(properties(more));
            var c = new KafkaConsumer<>(p, new StringDeserializer(),
                new StringDeserializer());
            clients.add(c);
            return c;
        }

        /** A member that has the record; null of it: it waits for nothing. */
        KafkaConsumer<String, String> member(Object... more) {
            var c = consumer(more);
            c.subscribe(List.of(in));
            return c;
        }

        void read(KafkaConsumer<String, String> c, String label) {
            var seen = new ArrayList<String>();
            until(() -> {
                c.poll(Duration.ofMillis(100)).forEach(
                    r -> seen.add(r.value()));
                return !seen.isEmpty();
            });
            is(seen, List.of("a"), label + " reads the record");
        }

        KafkaProducer<String, String> producer(String name) {
            var p = new KafkaProducer<>(properties("transactional.id",
                base + "-" + name, "linger.ms", 5,
                "transaction.timeout.ms", 600000), new StringSerializer(),
                new StringSerializer());
            clients.add(p);
            p.initTransactions();
            return p;
        }

        /** Begins a transaction and answers the record. */
        void answer(KafkaProducer<String, String> p, String name)
                throws Exception {
            p.beginTransaction();
            for (int i = 0; i < 2; i++) {
                p.send(new ProducerRecord<>(out, i, null, name + " saw a"))
                    .get();
            }
        }

        void offsets(KafkaProducer<String, String> p,
                ConsumerGroupMetadata member) {
            p.sendOffsetsToTransaction(
                Map.of(from, new OffsetAndMetadata(1)), member);
        }

        /** What a read_committed reader of today sees. */
        List<String> visible() {
            try (var c = consumer()) {
                var tps = List.of(new TopicPartition(out, 0),
                    new TopicPartition(out, 1));
                var ends = c.endOffsets(tps);
                var seen = new ArrayList<String>();
                c.assign(tps);
                c.seekToBeginning(tps);
                until(() -> {
                    c.poll(Duration.ofMillis(50)).forEach(
                        r -> seen.add(r.value()));
                    return tps.stream().allMatch(
                        tp -> c.position(tp) >= ends.get(tp));
                });
                return seen.stream().sorted().collect(Collectors.toList());
            }
        }

        /** The group's offset for who asks a consumer; -1: none, -2: pending. */
        long offset(Duration patience) {
            try (var c = consumer()) {
                var o = c.committed(Set.of(from), patience).get(from);
                return o == null ? -1 : o.offset();
            } catch (TimeoutException e) {
                return -2;
            }
        }

        long offset() {
            return offset(Duration.ofSeconds(60));
        }

        /** The same for an admin, who does not ask for stable ones. */
        long unstable() throws Exception {
            try (var admin = admin()) {
                var o = admin.listConsumerGroupOffsets(group)
                    .partitionsToOffsetAndMetadata().get().get(from);
                return o == null ? -1 : o.offset();
            }
        }

        void shows(long offset, List<String> seen, String label) {
            is(offset(), offset, label + ": the offset");
            is(visible(), seen, label + ": the output");
        }

        @Override
        public void close() {
            for (var c : clients) {
                if (c instanceof KafkaProducer<?, ?> p) {
                    p.close(Duration.ZERO);
                } else if (c instanceof KafkaConsumer<?, ?> k) {
                    k.close(Duration.ofSeconds(2));
                }
            }
        }
    }

    static boolean until(BooleanSupplier done) {
        long end = System.nanoTime() + 60_000_000_000L;
        while (System.nanoTime() < end) {
            if (done.getAsBoolean()) {
                return true;
            }
        }
        say("# waited in vain");
        return false;
    }

    static final List<String> NONE = List.of();

    static List<String> of(String name) {
        return List.of(name + " saw a", name + " saw a");
    }

    // ---- zombies: the consumer has lost its partitions

    /** Refused; the successor does the work, and only its is seen. */
    static void refused(Round r, String what, KafkaProducer<String, String> p,
            ConsumerGroupMetadata member, KafkaConsumer<String, String> heir,
            Class<?>... with) throws Exception {
        fails(what + ": its offsets are refused", () -> r.offsets(p, member),
            with);
        fails(what + ": it cannot commit", p::commitTransaction,
            KafkaException.class, CommitFailedException.class);
        is(r.offset(), -1L, what + ": no offset");
        is(r.visible(), NONE, what + ": no output");
        p.abortTransaction();
        r.shows(-1, NONE, what + ", aborted");

        var q = r.producer("heir");
        r.answer(q, "heir");
        r.offsets(q, heir.groupMetadata());
        q.commitTransaction();
        r.shows(1, of("heir"), what + ", then its heir");
    }

    /** It did not poll for long and has left: UNKNOWN_MEMBER_ID. */
    static void left() throws Exception {
        try (var r = new Round()) {
            var c = r.member("max.poll.interval.ms", 1000);
            r.read(c, "the one who will stall");
            var p = r.producer("zombie");
            r.answer(p, "zombie");

            var heir = r.member();
            r.read(heir, "its heir");
            refused(r, "a member that stalled", p, c.groupMetadata(), heir,
                CommitFailedException.class);
        }
    }

    /** It is a member of a later generation: ILLEGAL_GENERATION. */
    static void generation() throws Exception {
        try (var r = new Round()) {
            var c = r.member();
            r.read(c, "the one who will lose");
            var before = c.groupMetadata();
            var p = r.producer("zombie");
            r.answer(p, "zombie");

            var heir = r.member();
            until(() -> {
                c.poll(Duration.ofMillis(100));
                heir.poll(Duration.ofMillis(100));
                return heir.groupMetadata().generationId()
                    > before.generationId() && c.groupMetadata().generationId()
                    == heir.groupMetadata().generationId();
            });
            is(c.groupMetadata().memberId(), before.memberId(),
                "it is a member still");
            refused(r, "an older generation", p, before, heir,
                CommitFailedException.class);
        }
    }

    /** Another has taken its place: FENCED_INSTANCE_ID. */
    static void instance() throws Exception {
        try (var r = new Round()) {
            var c = r.member("group.instance.id", "one");
            r.read(c, "a static member");
            var p = r.producer("zombie");
            r.answer(p, "zombie");

            var heir = r.member("group.instance.id", "one");
            r.read(heir, "its other self");
            is(heir.groupMetadata().generationId(),
                c.groupMetadata().generationId(), "the same generation");
            refused(r, "a fenced instance", p, c.groupMetadata(), heir,
                FencedInstanceIdException.class, CommitFailedException.class);
        }
    }

    /** Another has its transactional id. */
    static void fenced() throws Exception {
        try (var r = new Round()) {
            var c = r.member();
            r.read(c, "a member");
            var p = r.producer("same");
            r.answer(p, "zombie");
            r.offsets(p, c.groupMetadata());

            var q = r.producer("same");
            r.shows(-1, NONE, "a producer's successor aborts it");
            r.answer(q, "heir");
            r.offsets(q, c.groupMetadata());
            fails("the zombie cannot commit", p::commitTransaction,
                ProducerFencedException.class,
                InvalidProducerEpochException.class);
            is(r.visible(), NONE, "nothing of either is seen");
            q.commitTransaction();
            r.shows(1, of("heir"), "the successor's");
        }
    }

    // ---- crashes between TxnOffsetCommit and EndTxn

    static void crash(String how, boolean commit) throws Exception {
        String label = how + ", " + (commit ? "commit" : "abort");
        try (var r = new Round()) {
            var c = r.member();
            r.read(c, label + ": a member");
            var p = r.producer("it");
            r.answer(p, "it");
            r.offsets(p, c.groupMetadata());
            please(how);

            is(r.unstable(), -1L, label + ": no offset yet");
            is(r.offset(Duration.ofSeconds(1)), -2L,
                label + ": but one pending");
            is(r.visible(), NONE, label + ": no output yet");

            if (commit) {
                p.commitTransaction();
                r.shows(1, of("it"), label);
            } else {
                p.abortTransaction();
                r.shows(-1, NONE, label);
            }

            // the same producer goes on
            r.answer(p, "again");
            r.offsets(p, c.groupMetadata());
            p.commitTransaction();
            is(r.offset(), 1L, label + ": the next one");
            is(r.visible().size(), commit ? 4 : 2, label + ": and its output");
        }
    }

    static void part(String name, Body body) {
        try {
            body.run();
        } catch (Exception e) {
            ok(false, name + ": " + e);
            e.printStackTrace();
        }
    }

    public static void main(String[] args) {
        bootstrap = args[0];
        part("left", TransactionTest::left);
        part("generation", TransactionTest::generation);
        part("instance", TransactionTest::instance);
        part("fenced", TransactionTest::fenced);

        for (String how : List.of("kill workers", "kill everything")) {
            for (boolean commit : new boolean[] { true, false }) {
                part(how, () -> crash(how, commit));
            }
        }

        say("1.." + run);
        System.exit(failed == 0 ? 0 : 1);
    }
}
