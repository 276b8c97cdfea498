import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.stream.Collectors;

import org.apache.kafka.clients.CommonClientConfigs;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a consumer group, as t/lib/Test/KafkaGroup.pm has it:
 * GroupMember BOOTSTRAP GROUP TOPIC [NAME=VALUE]...
 */
public class GroupMember {

    static String list(Collection<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::partition).sorted()
            .map(String::valueOf).collect(Collectors.joining(","));
    }

    static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static void listen(BlockingQueue<String> commands) {
        try (var in = new BufferedReader(new InputStreamReader(System.in))) {
            String line;
            while ((line = in.readLine()) != null) {
                commands.add(line.trim());
            }
        } catch (java.io.IOException e) {
            e.printStackTrace();
        }
        commands.add("close");
    }

    public static void main(String[] args) {
        var p = new Properties();
        p.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        p.put(ConsumerConfig.GROUP_ID_CONFIG, args[1]);
        p.put(ConsumerConfig.GROUP_PROTOCOL_CONFIG, "classic");
        p.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        p.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false");
        p.put(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, "10000");
        p.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, "300");
        p.put(ConsumerConfig.METADATA_MAX_AGE_CONFIG, "2000");
        // Else it forgets all topics when its only broker is away, and joins
        // anew when it sees that the ones it had "have changed".
        p.put(CommonClientConfigs.METADATA_RECOVERY_STRATEGY_CONFIG, "none");

        for (int i = 3; i < args.length; i++) {
            var pair = args[i].split("=", 2);
            if (pair[0].equals("instance")) {
                p.put(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG, pair[1]);
                // one that comes back to its place has time to start again
                p.put(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, "60000");
            } else if (args[i].equals("strategy=cooperative")) {
                p.put(ConsumerConfig.PARTITION_ASSIGNMENT_STRATEGY_CONFIG,
                    CooperativeStickyAssignor.class.getName());
            }
        }

        var commands = new LinkedBlockingQueue<String>();
        var thread = new Thread(() -> listen(commands));
        thread.setDaemon(true);
        thread.start();

        var consumer = new KafkaConsumer<>(p, new StringDeserializer(),
            new StringDeserializer());

        consumer.subscribe(List.of(args[2]), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> more) {
                say("assigned " + list(consumer.assignment()));
            }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> less) {
                say("revoked " + list(less));
            }
        });

        while (true) {
            for (ConsumerRecord<String, String> r
                    : consumer.poll(Duration.ofMillis(50))) {
                say("record " + r.partition() + " " + r.value());
            }

            var command = commands.poll();
            if (command == null) {
                continue;
            }

            if (command.equals("close")) {
                consumer.close();
                return;
            }

            try {
                consumer.commitSync();
                say("committed");
            } catch (KafkaException e) {
                say("problem " + e);
            }
        }
    }
}
