// A member of a consumer group of franz-go.
package main

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"groupmember/member"
)

func main() {
	a := member.Parse()
	ctx := context.Background()
	mine := map[int32]bool{}
	var mu sync.Mutex

	show := func() {
		var all []int32
		for p := range mine {
			all = append(all, p)
		}
		member.Assigned(all)
	}
	assigned := func(_ context.Context, _ *kgo.Client, m map[string][]int32) {
		mu.Lock()
		defer mu.Unlock()
		for _, p := range m[a.Topic] {
			mine[p] = true
		}
		show()
	}
	revoked := func(_ context.Context, _ *kgo.Client, m map[string][]int32) {
		mu.Lock()
		defer mu.Unlock()
		if len(m[a.Topic]) == 0 {
			return
		}
		for _, p := range m[a.Topic] {
			delete(mine, p)
		}
		member.Revoked(m[a.Topic])
	}

	options := []kgo.Opt{
		kgo.SeedBrokers(a.Bootstrap),
		kgo.ConsumerGroup(a.Group),
		kgo.ConsumeTopics(a.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(10 * time.Second),
		kgo.HeartbeatInterval(300 * time.Millisecond),
		kgo.MetadataMinAge(500 * time.Millisecond),
		kgo.MetadataMaxAge(2 * time.Second),
		kgo.DisableAutoCommit(),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, nil)),
		kgo.OnPartitionsAssigned(assigned),
		kgo.OnPartitionsRevoked(revoked),
		kgo.OnPartitionsLost(revoked),
		kgo.Balancers(kgo.RangeBalancer()),
	}
	if a.Cooperative {
		options = append(options,
			kgo.Balancers(kgo.CooperativeStickyBalancer()))
	}
	if a.Instance != "" {
		// one that comes back to its place has time to start again
		options = append(options, kgo.InstanceID(a.Instance),
			kgo.SessionTimeout(60*time.Second))
	}

	c, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	commands := member.Commands()

	for {
		poll, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		c.PollFetches(poll).EachRecord(func(r *kgo.Record) {
			member.Record(r.Partition, r.Value)
		})
		cancel()

		select {
		case command := <-commands:
			if command == "close" {
				c.Close()
				return
			}
			limit, cancel := context.WithTimeout(ctx, 10*time.Second)
			member.Committed(c.CommitUncommittedOffsets(limit))
			cancel()
		default:
		}
	}
}
