// A member of a consumer group of sarama.
package main

import (
	"context"
	"log"
	"os"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"groupmember/member"
)

type handler struct {
	topic   string
	mu      sync.Mutex
	session sarama.ConsumerGroupSession
}

func (h *handler) Setup(s sarama.ConsumerGroupSession) error {
	h.mu.Lock()
	h.session = s
	h.mu.Unlock()
	member.Assigned(append([]int32{}, s.Claims()[h.topic]...))
	return nil
}

func (h *handler) Cleanup(s sarama.ConsumerGroupSession) error {
	h.mu.Lock()
	h.session = nil
	h.mu.Unlock()
	member.Revoked(append([]int32{}, s.Claims()[h.topic]...))
	return nil
}

func (h *handler) ConsumeClaim(s sarama.ConsumerGroupSession,
	c sarama.ConsumerGroupClaim) error {
	for {
		select {
		case m, ok := <-c.Messages():
			if !ok {
				return nil
			}
			member.Record(m.Partition, m.Value)
			s.MarkMessage(m, "")
		case <-s.Context().Done():
			return nil
		}
	}
}

func main() {
	a := member.Parse()
	log.SetOutput(os.Stderr)

	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Session.Timeout = 10 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	config.Consumer.Group.InstanceId = a.Instance
	if a.Instance != "" {
		// one that comes back to its place has time to start again
		config.Consumer.Group.Session.Timeout = 60 * time.Second
	}
	config.Consumer.Return.Errors = true
	config.Metadata.RefreshFrequency = 2 * time.Second

	group, err := sarama.NewConsumerGroup([]string{a.Bootstrap}, a.Group,
		config)
	if err != nil {
		panic(err)
	}

	go func() {
		for err := range group.Errors() {
			log.Print(err)
		}
	}()

	h := &handler{topic: a.Topic}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})

	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := group.Consume(ctx, []string{a.Topic}, h); err != nil {
				log.Print(err)
				time.Sleep(200 * time.Millisecond)
			}
		}
	}()

	for command := range member.Commands() {
		if command == "close" {
			cancel()
			<-done
			group.Close()
			return
		}
		h.mu.Lock()
		if h.session != nil {
			h.session.Commit()
			member.Committed(nil)
		}
		h.mu.Unlock()
	}
}
