// A member of a consumer group of kafkajs, as t/lib/Test/KafkaGroup.pm has it:
// group.js BOOTSTRAP GROUP TOPIC

const { Kafka, logLevel } = require('kafkajs');

const [bootstrap, group, topic] = process.argv.slice(2);

const kafka = new Kafka({ brokers: [bootstrap], clientId: 'group-test',
    logLevel: logLevel.WARN, retry: { initialRetryTime: 100, retries: 20,
        maxRetryTime: 1000 },
    logCreator: () => ({ namespace, log }) =>
        console.error(namespace, log.message, log.error || '') });
const consumer = kafka.consumer({ groupId: group, sessionTimeout: 10000,
    heartbeatInterval: 300, metadataMaxAge: 2000, maxWaitTimeInMs: 200,
    rebalanceTimeout: 15000 });
const next = new Map();

const list = (a) => [...a].sort((x, y) => x - y).join(',');

consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    next.clear();
    console.log('assigned', list(payload.memberAssignment[topic] || []));
});

async function command(word) {
    if (word === 'close') {
        await consumer.disconnect();
        process.exit(0);
    }
    try {
        await consumer.commitOffsets([...next].map(([partition, offset]) =>
            ({ topic, partition, offset: String(offset) })));
        console.log('committed');
    } catch (e) {
        console.log('problem', e.message);
    }
}

async function main() {
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    await consumer.run({ autoCommit: false,
        eachMessage: async ({ partition, message }) => {
            next.set(partition, BigInt(message.offset) + 1n);
            console.log('record', partition, message.value.toString());
        } });

    let last = Promise.resolve();
    process.stdin.on('data', (text) => {
        for (const word of text.toString().split(/\s+/).filter(Boolean)) {
            last = last.then(() => command(word));
        }
    });
    process.stdin.on('end', () => command('close'));
}

main().catch((e) => { console.error(e); process.exit(1); });
