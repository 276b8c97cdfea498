// A member of a consumer group of segmentio's kafka-go.  Its Reader keeps its
// assignment to itself, so this uses the ConsumerGroup that is below it.
package main

import (
	"context"
	"log"
	"os"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"groupmember/member"
)

type state struct {
	mu   sync.Mutex
	gen  *kafka.Generation
	next map[int]int64
}

func (s *state) read(ctx context.Context, a member.Args, partition int,
	offset int64) {
	r := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{a.Bootstrap}, Topic: a.Topic, Partition: partition,
		MaxWait: 200 * time.Millisecond,
	})
	defer r.Close()
	if err := r.SetOffset(offset); err != nil {
		log.Print(err)
		return
	}
	for ctx.Err() == nil {
		m, err := r.ReadMessage(ctx)
		if err != nil {
			if ctx.Err() == nil {
				log.Print(err)
				time.Sleep(100 * time.Millisecond)
			}
			continue
		}
		member.Record(int32(partition), m.Value)
		s.mu.Lock()
		s.next[partition] = m.Offset + 1
		s.mu.Unlock()
	}
}

func (s *state) commit(topic string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gen == nil || len(s.next) == 0 {
		return nil
	}
	offsets := map[int]int64{}
	for p, o := range s.next {
		offsets[p] = o
	}
	return s.gen.CommitOffsets(map[string]map[int]int64{topic: offsets})
}

func main() {
	a := member.Parse()
	log.SetOutput(os.Stderr)

	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: a.Group, Brokers: []string{a.Bootstrap},
		Topics: []string{a.Topic}, StartOffset: kafka.FirstOffset,
		HeartbeatInterval: 300 * time.Millisecond,
		SessionTimeout:    10 * time.Second,
		RebalanceTimeout:  10 * time.Second,
		JoinGroupBackoff:  200 * time.Millisecond,
		ErrorLogger:       log.Default(),
	})
	if err != nil {
		panic(err)
	}

	s := &state{}
	ctx, cancel := context.WithCancel(context.Background())

	go func() {
		for ctx.Err() == nil {
			gen, err := group.Next(ctx)
			if err != nil {
				if ctx.Err() == nil {
					log.Print(err)
					time.Sleep(200 * time.Millisecond)
				}
				continue
			}
			s.mu.Lock()
			s.gen, s.next = gen, map[int]int64{}
			s.mu.Unlock()
			var all []int32
			for _, p := range gen.Assignments[a.Topic] {
				all = append(all, int32(p.ID))
				gen.Start(func(ctx context.Context) {
					s.read(ctx, a, p.ID, p.Offset)
				})
			}
			member.Assigned(all)
		}
	}()

	for command := range member.Commands() {
		if command == "close" {
			cancel()
			group.Close()
			return
		}
		// a generation ends with its connection; the next one may do it
		err := s.commit(a.Topic)
		for i := 0; err != nil && i < 50; i++ {
			time.Sleep(200 * time.Millisecond)
			err = s.commit(a.Topic)
		}
		member.Committed(err)
	}
}
