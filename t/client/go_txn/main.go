// Reads, processes, writes, exactly once, as t/soak/Copiers.pm has it, with
// franz-go: copier BOOTSTRAP GROUP INPUT OUTPUT TRANSACTIONAL-ID PARTITIONS ONE-OF
package main

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	bootstrap, group, source, target, id string

	partitions, oneOf int
	ending            atomic.Bool
)

func session() (*kgo.GroupTransactSession, error) {
	return kgo.NewGroupTransactSession(
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.TransactionalID(id),
		kgo.TransactionTimeout(10*time.Second),
		kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(500*time.Millisecond),
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.MetadataMinAge(500*time.Millisecond),
		kgo.ProducerBatchCompression(kgo.GzipCompression()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, nil)),
	)
}

func pause() {
	if rand.Intn(3) == 0 {
		time.Sleep(time.Duration(rand.Intn(60)) * time.Millisecond)
	}
}

// One transaction, if there is something to read.  An error is the end of
// the session.
func step(s *kgo.GroupTransactSession) error {
	poll, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	records := s.PollRecords(poll, 50).Records()
	cancel()

	if len(records) == 0 {
		return nil
	}
	if err := s.Begin(); err != nil {
		return err
	}

	ctx := context.Background()
	offsets := map[int32]int64{}
	first := kgo.AbortingFirstErrPromise(s.Client())
	for _, r := range records {
		number, err := strconv.Atoi(strings.Split(string(r.Value), "/")[1])
		if err != nil {
			return err
		}
		send := func(kind string, partition int32) {
			s.Produce(ctx, &kgo.Record{
				Topic: target, Partition: partition, Key: r.Key,
				Value: append([]byte(kind), r.Value...),
			}, first.Promise())
		}
		offsets[r.Partition] = r.Offset + 1
		send("a:", r.Partition)
		send("b:", int32((int(r.Partition)+number)%partitions))
	}

	pause()
	err := first.Err()
	commit := kgo.TransactionEndTry(err == nil && rand.Intn(oneOf) != 0)
	pause()

	committed, end := s.End(ctx, commit)
	if committed {
		fmt.Println("committed", len(records), offsets)
	} else if end == nil {
		fmt.Println("aborted", len(records), err)
	}
	return end
}

func main() {
	bootstrap, group, source, target, id = os.Args[1], os.Args[2], os.Args[3],
		os.Args[4], os.Args[5]
	partitions, _ = strconv.Atoi(os.Args[6])
	oneOf, _ = strconv.Atoi(os.Args[7])

	go func() {
		os.Stdin.Read(make([]byte, 1))
		ending.Store(true)
	}()

	for !ending.Load() {
		s, err := session()
		for err == nil && !ending.Load() {
			err = step(s)
		}
		if err != nil {
			fmt.Println("renewed", err)
			time.Sleep(100 * time.Millisecond)
		}
		if s != nil {
			s.Close()
		}
	}
}
