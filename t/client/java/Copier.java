import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;

import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Reads, processes, writes, exactly once, as t/soak/Copiers.pm has it; of any
 * kafka-clients since 2.5:
 * Copier BOOTSTRAP GROUP INPUT OUTPUT TRANSACTIONAL-ID PARTITIONS ONE-OF
 */
public class Copier {

    static volatile boolean ending;

    /** The application's own reason to abort. */
    static class ChangedMind extends KafkaException {
    }

    final String[] args;
    final Random random = new Random();
    KafkaConsumer<String, String> consumer;
    KafkaProducer<String, String> producer;

    Copier(String[] args) {
        this.args = args;
    }

    static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    void open() {
        var c = new Properties();
        c.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        c.put(ConsumerConfig.GROUP_ID_CONFIG, args[1]);
        c.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
        c.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        c.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false");
        c.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, "50");
        c.put(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, "6000");
        c.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, "500");
        c.put(ConsumerConfig.REQUEST_TIMEOUT_MS_CONFIG, "5000");
        c.put(ConsumerConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, "15000");
        consumer = new KafkaConsumer<>(c, new StringDeserializer(),
            new StringDeserializer());

        var p = new Properties();
        p.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        p.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, args[4]);
        p.put(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG, "10000");
        p.put(ProducerConfig.LINGER_MS_CONFIG, "2");
        p.put(ProducerConfig.REQUEST_TIMEOUT_MS_CONFIG, "5000");
        p.put(ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, "10000");
        p.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, "10000");
        producer = new KafkaProducer<>(p, new StringSerializer(),
            new StringSerializer());
        producer.initTransactions();
        consumer.subscribe(List.of(args[2]));
    }

    // Newer clients have another close(); the older one has this one only.
    @SuppressWarnings("deprecation")
    void close() {
        if (producer != null) {
            producer.close(Duration.ofSeconds(1));
        }
        if (consumer != null) {
            consumer.close(Duration.ofSeconds(1));
        }
        producer = null;
        consumer = null;
    }

    void pause() {
        if (random.nextInt(3) == 0) {
            try {
                Thread.sleep(random.nextInt(60));
            } catch (InterruptedException e) {
                throw new RuntimeException(e);
            }
        }
    }

    String process(ConsumerRecords<String, String> records) {
        int partitions = Integer.parseInt(args[5]);
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();

        producer.beginTransaction();

        for (ConsumerRecord<String, String> r : records) {
            var number = Long.parseLong(r.value().split("/")[1]);
            producer.send(new ProducerRecord<>(args[3], r.partition(),
                r.key(), "a:" + r.value()));
            producer.send(new ProducerRecord<>(args[3],
                (int) ((r.partition() + number) % partitions), r.key(),
                "b:" + r.value()));
            offsets.put(new TopicPartition(r.topic(), r.partition()),
                new OffsetAndMetadata(r.offset() + 1));
        }

        pause();
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        pause();

        if (random.nextInt(Integer.parseInt(args[6])) == 0) {
            throw new ChangedMind();
        }

        commit(3);

        return offsets.entrySet().stream().map(e -> e.getKey().partition()
            + ":" + e.getValue().offset()).sorted().toList().toString();
    }

    /** Nobody knows what a commit came to that was not answered: ask again. */
    void commit(int tries) {
        try {
            producer.commitTransaction();
        } catch (TimeoutException e) {
            if (tries == 0) {
                throw e;
            }
            say("waits " + e);
            commit(tries - 1);
        }
    }

    /** What was read is to be read again. */
    void rewind() {
        var assigned = consumer.assignment();
        var committed = consumer.committed(assigned);

        for (var p : assigned) {
            var offset = committed.get(p);
            if (offset != null) {
                consumer.seek(p, offset);
            } else {
                consumer.seekToBeginning(List.of(p));
            }
        }

        say("rewound " + committed);
    }

    void work() {
        open();

        while (!ending) {
            var records = consumer.poll(Duration.ofMillis(100));
            if (records.isEmpty()) {
                continue;
            }

            try {
                var offsets = process(records);
                say("committed " + records.count() + " " + offsets);
            } catch (ProducerFencedException | OutOfOrderSequenceException
                     | AuthorizationException | UnsupportedVersionException
                     | TimeoutException e) {
                throw e;
            } catch (KafkaException e) {
                say("aborted " + records.count() + " " + e);
                producer.abortTransaction();
                rewind();
            }
        }
    }

    public static void main(String[] args) {
        var stdin = new Thread(() -> {
            try {
                while (System.in.read() != -1) {
                    continue;
                }
            } catch (IOException e) {
                say("stdin " + e);
            }
            ending = true;
        });
        stdin.setDaemon(true);
        stdin.start();

        var copier = new Copier(args);

        while (!ending) {
            try {
                copier.work();
            } catch (KafkaException | IllegalStateException e) {
                say("renewed " + e);
            }
            try {
                copier.close();
            } catch (KafkaException e) {
                say("close " + e);
            }
        }
    }
}
