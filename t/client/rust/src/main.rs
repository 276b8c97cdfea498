// rskafka against the broker of the first argument: topics, every codec, offsets,
// deleted records, and the position of a reader, which is a record in a topic
// because this client has no groups.  Prints TAP.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use chrono::Utc;
use rskafka::client::partition::{
    Compression, OffsetAt, PartitionClient, UnknownTopicHandling,
};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;

const PARTITIONS: i32 = 4;
const EACH: usize = 50;

struct Tap(usize);

impl Tap {
    fn ok(&mut self, good: bool, what: &str) {
        self.0 += 1;
        println!("{}ok {} - {}", if good { "" } else { "not " }, self.0, what);
    }

    fn is<T: PartialEq + Debug>(&mut self, got: T, want: T, what: &str) {
        let good = got == want;
        self.ok(good, what);
        if !good {
            println!("# got {got:?}, want {want:?}");
        }
    }
}

fn record(text: String) -> Record {
    Record {
        key: Some(b"key".to_vec()),
        value: Some(text.into_bytes()),
        headers: BTreeMap::from([("from".to_owned(), b"rskafka".to_vec())]),
        timestamp: Utc::now(),
    }
}

async fn partition(client: &Client, topic: &str, n: i32) -> PartitionClient {
    client
        .partition_client(topic, n, UnknownTopicHandling::Retry)
        .await
        .expect("a partition's client")
}

// Everything from an offset on, as text.
async fn read(from: &PartitionClient, mut at: i64) -> Vec<String> {
    let end = from.get_offset(OffsetAt::Latest).await.expect("its end");
    let mut all = Vec::new();

    while at < end {
        let (got, _) = from
            .fetch_records(at, 1..1_000_000, 2_000)
            .await
            .expect("records");

        for r in got {
            at = r.offset + 1;
            let value = r.record.value.unwrap_or_default();
            all.push(String::from_utf8(value).expect("text"));
        }
    }

    all
}

#[tokio::main]
async fn main() {
    let broker = std::env::args().nth(1).expect("a broker's address");
    let topic = format!("rskafka-{}", std::process::id());
    let mut tap = Tap(0);

    let client = ClientBuilder::new(vec![broker])
        .build()
        .await
        .expect("a client");
    let controller = client.controller_client().expect("the controller");

    controller
        .create_topic(&topic, PARTITIONS, 1, 10_000)
        .await
        .expect("a topic");
    let topics = client.list_topics().await.expect("the topics");
    let partitions = topics
        .iter()
        .find(|t| t.name == topic)
        .map_or(0, |t| t.partitions.len());
    tap.is(partitions, PARTITIONS as usize, "a topic with its partitions");
    tap.ok(
        controller.create_topic(&topic, 1, 1, 10_000).await.is_err(),
        "it can't be made twice",
    );

    let codecs = [
        ("none", Compression::NoCompression),
        ("gzip", Compression::Gzip),
        ("lz4", Compression::Lz4),
        ("snappy", Compression::Snappy),
        ("zstd", Compression::Zstd),
    ];

    for (i, (name, codec)) in codecs.into_iter().enumerate() {
        let p = partition(&client, &topic, i as i32 % PARTITIONS).await;
        let start = p.get_offset(OffsetAt::Latest).await.expect("its end");
        let texts: Vec<String> =
            (0..EACH).map(|n| format!("{name} {n} {}", "x".repeat(n))).collect();
        let records = texts.iter().cloned().map(record).collect();

        let produced = p.produce(records, codec).await.expect("produce");
        let offsets: Vec<i64> = (start..start + EACH as i64).collect();
        tap.is(produced, offsets, &format!("{name}: produced"));
        tap.is(read(&p, start).await, texts, &format!("{name}: read back"));
    }

    // A reader that waits is woken by a writer.
    let p = partition(&client, &topic, 0).await;
    let end = p.get_offset(OffsetAt::Latest).await.expect("its end");
    let reader = partition(&client, &topic, 0).await;
    let waiting = tokio::spawn(async move {
        reader.fetch_records(end, 1..1_000_000, 60_000).await
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    tap.ok(!waiting.is_finished(), "a reader waits at the end");
    p.produce(vec![record("late".into())], Compression::NoCompression)
        .await
        .expect("produce");
    let (got, high) = waiting.await.expect("the reader").expect("its answer");
    tap.is(got.len(), 1, "and gets what comes");
    tap.is(high, end + 1, "with the high watermark");

    // Where a reader is, kept as the last record of a topic.
    let kept = format!("{topic}-positions");
    controller
        .create_topic(&kept, 1, 1, 10_000)
        .await
        .expect("a topic for positions");
    let log = partition(&client, &kept, 0).await;

    for n in [10, 20, 30] {
        log.produce(vec![record(format!("{n}"))], Compression::Gzip)
            .await
            .expect("a position");
    }

    let last = log.get_offset(OffsetAt::Latest).await.expect("its end") - 1;
    let at = read(&log, last).await.pop().expect("the last position");
    tap.is(
        read(&p, at.parse().expect("a number")).await.len() as i64,
        end + 1 - 30,
        "a reader goes on where it was",
    );

    p.delete_records(20, 10_000).await.expect("delete records");
    let first = p.get_offset(OffsetAt::Earliest).await.expect("its start");
    tap.is(first, 20, "records are deleted");
    tap.ok(
        p.fetch_records(5, 1..1_000_000, 100).await.is_err(),
        "and can't be read any more",
    );

    controller.delete_topic(&topic, 10_000).await.expect("deletion");
    let topics = client.list_topics().await.expect("the topics");
    tap.ok(!topics.iter().any(|t| t.name == topic), "a topic is deleted");

    println!("1..{}", tap.0);
}
