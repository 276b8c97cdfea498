// Package member is what the members of consumer groups have in common: the
// lines that t/lib/Test/KafkaGroup.pm reads and writes.
package member

import (
	"bufio"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
)

// Args are BOOTSTRAP GROUP TOPIC [NAME=VALUE]...
type Args struct {
	Bootstrap, Group, Topic string
	Instance                string
	Cooperative             bool
}

// Parse reads them from the command line.
func Parse() Args {
	a := Args{Bootstrap: os.Args[1], Group: os.Args[2], Topic: os.Args[3]}
	for _, o := range os.Args[4:] {
		name, value, _ := strings.Cut(o, "=")
		switch name {
		case "instance":
			a.Instance = value
		case "strategy":
			a.Cooperative = value == "cooperative"
		}
	}
	return a
}

var mu sync.Mutex

func say(line string) {
	mu.Lock()
	defer mu.Unlock()
	fmt.Println(line)
}

func list(what string, partitions []int32) {
	sort.Slice(partitions, func(i, j int) bool {
		return partitions[i] < partitions[j]
	})
	words := make([]string, len(partitions))
	for i, p := range partitions {
		words[i] = strconv.Itoa(int(p))
	}
	say(what + " " + strings.Join(words, ","))
}

// Assigned says all partitions that the member has now.
func Assigned(partitions []int32) { list("assigned", partitions) }

// Revoked says those that it lost.
func Revoked(partitions []int32) { list("revoked", partitions) }

// Record says that one came.
func Record(partition int32, value []byte) {
	say(fmt.Sprintf("record %d %s", partition, value))
}

// Committed answers "commit".
func Committed(err error) {
	if err != nil {
		say("problem " + err.Error())
		return
	}
	say("committed")
}

// Commands gives what stdin says, and "close" at its end.
func Commands() <-chan string {
	c := make(chan string)
	go func() {
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			c <- strings.TrimSpace(in.Text())
		}
		c <- "close"
	}()
	return c
}
