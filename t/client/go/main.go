// franz-go against the broker at os.Args[1]: prints TAP.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	bootstrap   string
	run, failed int
	base        = fmt.Sprintf("go-%d", os.Getpid())
)

func ok(pass bool, label string) bool {
	run++
	word := "ok"
	if !pass {
		word = "not ok"
		failed++
	}
	fmt.Printf("%s %d - %s\n", word, run, label)
	return pass
}

func is[T comparable](got, want T, label string) {
	if !ok(got == want, label) {
		fmt.Printf("# got %v, want %v\n", got, want)
	}
}

func fine(err error, label string) bool {
	if !ok(err == nil, label) {
		fmt.Printf("# %v\n", err)
		return false
	}
	return true
}

func client(opts ...kgo.Opt) *kgo.Client {
	opts = append([]kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.DefaultProduceTopic("none")}, opts...)
	c, err := kgo.NewClient(opts...)
	if err != nil {
		fmt.Println("Bail out! " + err.Error())
		os.Exit(1)
	}
	return c
}

func value(i int) []byte {
	return []byte(fmt.Sprintf("value %d %s", i, strings.Repeat("abcdefgh", i*13%200)))
}

func read(c *kgo.Client, n int) []*kgo.Record {
	var out []*kgo.Record
	ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
	defer cancel()
	for len(out) < n && ctx.Err() == nil {
		fetches := c.PollFetches(ctx)
		fetches.EachError(func(t string, p int32, err error) {
			if !errors.Is(err, context.DeadlineExceeded) {
				fmt.Printf("# fetch %s/%d: %v\n", t, p, err)
			}
		})
		fetches.EachRecord(func(r *kgo.Record) { out = append(out, r) })
	}
	return out
}

func consume(t string, p int32, at kgo.Offset, n int) []*kgo.Record {
	c := client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{t: {p: at}}))
	defer c.Close()
	return read(c, n)
}

func topics(ctx context.Context) {
	c := client()
	defer c.Close()
	a := kadm.NewClient(c)
	t := base + "-admin"
	value := "3600000"

	m, err := a.BrokerMetadata(ctx)
	if fine(err, "metadata") {
		is(len(m.Brokers), 1, "one broker")
		ok(m.Cluster != "", "a cluster id")
	}

	r, err := a.CreateTopic(ctx, 3, 1, map[string]*string{"retention.ms": &value}, t)
	fine(err, "created")
	ok(r.ID != kadm.TopicID{}, "with an id")
	_, err = a.CreateTopic(ctx, 3, 1, nil, t)
	ok(errors.Is(err, kerr.TopicAlreadyExists), "created twice")
	_, err = a.CreateTopic(ctx, 0, 1, nil, t+"x")
	ok(errors.Is(err, kerr.InvalidPartitions), "no partitions")
	_, err = a.CreateTopic(ctx, 1, 3, nil, t+"x")
	ok(errors.Is(err, kerr.InvalidReplicationFactor), "three replicas")

	l, err := a.ListTopics(ctx, t)
	if fine(err, "listed") {
		is(len(l[t].Partitions), 3, "partitions")
		is(l[t].ID, r.ID, "the same id")
	}

	cfg, err := a.DescribeTopicConfigs(ctx, t)
	if fine(err, "configs") {
		found := false
		for _, e := range cfg[0].Configs {
			if e.Key == "retention.ms" {
				found = e.MaybeValue() == value &&
					e.Source == kmsg.ConfigSourceDynamicTopicConfig
			}
		}
		ok(found, "the topic's own config")
	}

	d, err := a.DeleteTopics(ctx, t)
	fine(err, "delete")
	fine(d[t].Err, "deleted")
	d, _ = a.DeleteTopics(ctx, t)
	ok(errors.Is(d[t].Err, kerr.UnknownTopicOrPartition), "deleted twice")
}

func roundTrip(ctx context.Context, name string, codec kgo.CompressionCodec, idempotent bool) {
	const n = 2000
	t := fmt.Sprintf("%s-%s-%v", base, name, idempotent)
	label := fmt.Sprintf("%s, idempotent %v", name, idempotent)
	opts := []kgo.Opt{kgo.ProducerBatchCompression(codec), kgo.DefaultProduceTopic(t),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(5 * time.Millisecond)}
	if !idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()))
	}
	c := client(opts...)
	defer c.Close()
	if _, err := kadm.NewClient(c).CreateTopic(ctx, 2, 1, nil, t); err != nil {
		fine(err, label+": topic")
		return
	}

	var rs []*kgo.Record
	for i := 0; i < n; i++ {
		rs = append(rs, &kgo.Record{Partition: 1, Key: []byte(fmt.Sprint(i)), Value: value(i),
			Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("x")}}})
	}
	res := c.ProduceSync(ctx, rs...)
	if !fine(res.FirstErr(), label+": produced") {
		return
	}
	inOrder := true
	for i, r := range rs {
		inOrder = inOrder && r.Offset == int64(i)
	}
	if idempotent {
		ok(inOrder, label+": offsets in order")
	}

	got := consume(t, 1, kgo.NewOffset().AtStart(), n)
	is(len(got), n, label+": all consumed")
	seen := map[string]bool{}
	same := true
	for i, r := range got {
		same = same && r.Offset == int64(i) && len(r.Headers) == 1
		seen[string(r.Key)] = true
		var k int
		fmt.Sscan(string(r.Key), &k)
		same = same && string(r.Value) == string(value(k)) && (!idempotent || k == i)
	}
	ok(same, label+": the same records")
	is(len(seen), n, label+": each once")
}

func times(ctx context.Context) {
	t := base + "-times"
	c := client(kgo.DefaultProduceTopic(t))
	defer c.Close()
	a := kadm.NewClient(c)
	if _, err := a.CreateTopic(ctx, 1, 1, nil, t); err != nil {
		fine(err, "topic")
		return
	}
	start := time.Now().Add(-1000 * time.Second).Truncate(time.Millisecond)
	for i := 0; i < 100; i++ {
		at := start.Add(time.Duration(i) * time.Second)
		if err := c.ProduceSync(ctx, &kgo.Record{Value: value(i), Timestamp: at}).FirstErr(); err != nil {
			fine(err, "produce")
			return
		}
	}
	at := start.Add(41500 * time.Millisecond).UnixMilli()
	l, err := a.ListOffsetsAfterMilli(ctx, at, t)
	if fine(err, "offsets after a time") {
		o, _ := l.Lookup(t, 0)
		is(o.Offset, 42, "the offset")
		is(o.Timestamp, start.Add(42*time.Second).UnixMilli(), "and its timestamp")
	}
	e, err := a.ListEndOffsets(ctx, t)
	if fine(err, "end offsets") {
		o, _ := e.Lookup(t, 0)
		is(o.Offset, 100, "the end")
	}
	got := consume(t, 0, kgo.NewOffset().AfterMilli(at), 58)
	if ok(len(got) == 58, "consumed from a time") {
		is(got[0].Offset, 42, "from the right record")
	}
	got = consume(t, 0, kgo.NewOffset().At(97), 3)
	if ok(len(got) == 3, "consumed from an offset") {
		is(got[0].Offset, 97, "that one")
	}
	got = consume(t, 0, kgo.NewOffset().AtEnd().Relative(-2), 2)
	is(len(got), 2, "consumed from the end")
}

// A consumer that waits is woken by a producer on another connection.
func wakes(ctx context.Context) {
	t := base + "-wakes"
	p := client(kgo.DefaultProduceTopic(t))
	defer p.Close()
	if _, err := kadm.NewClient(p).CreateTopic(ctx, 1, 1, nil, t); err != nil {
		fine(err, "topic")
		return
	}
	c := client(kgo.FetchMaxWait(60*time.Second), kgo.ConsumePartitions(
		map[string]map[int32]kgo.Offset{t: {0: kgo.NewOffset().AtStart()}}))
	defer c.Close()
	worst := time.Duration(0)
	for i := 0; i < 20; i++ {
		go func() {
			time.Sleep(30 * time.Millisecond)
			p.Produce(ctx, &kgo.Record{Value: []byte(fmt.Sprint(time.Now().UnixNano()))}, nil)
		}()
		got := read(c, 1)
		if len(got) != 1 {
			ok(false, "woken")
			return
		}
		var sent int64
		fmt.Sscan(string(got[0].Value), &sent)
		worst = max(worst, time.Since(time.Unix(0, sent)))
	}
	if !ok(worst < 30*time.Second, "a waiting consumer is woken") {
		fmt.Printf("# after %v\n", worst)
	}
}

func main() {
	bootstrap = os.Args[1]
	ctx, cancel := context.WithTimeout(context.Background(), 600*time.Second)
	defer cancel()

	topics(ctx)
	for _, idempotent := range []bool{true, false} {
		for _, x := range []struct {
			name  string
			codec kgo.CompressionCodec
		}{
			{"none", kgo.NoCompression()}, {"gzip", kgo.GzipCompression()},
			{"snappy", kgo.SnappyCompression()}, {"lz4", kgo.Lz4Compression()},
			{"zstd", kgo.ZstdCompression()},
		} {
			roundTrip(ctx, x.name, x.codec, idempotent)
		}
	}
	times(ctx)
	wakes(ctx)

	fmt.Printf("1..%d\n", run)
	if failed > 0 {
		os.Exit(1)
	}
}
