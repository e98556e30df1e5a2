package redisstore_test

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	sdk "github.com/redis/go-redis/v9"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// serverCounts are the commands that a server has carried out, also those within scripts, and the bytes that came and
// went.
type serverCounts struct {
	calls   map[string]int
	in, out int
}

func countsOf(t *testing.T, c *sdk.Client) (n serverCounts) {
	t.Helper()
	text, err := c.Info(t.Context(), "everything").Result()
	if err != nil {
		t.Fatal(err)
	}
	n.calls = map[string]int{}
	for line := range strings.SplitSeq(text, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		switch command, isCommand := strings.CutPrefix(name, "cmdstat_"); {
		case isCommand && command != "info":
			var calls int
			if _, err := fmt.Sscanf(value, "calls=%d,", &calls); err != nil {
				t.Fatal(line, err)
			}
			n.calls[command] = calls
		case name == "total_net_input_bytes":
			_, err = fmt.Sscan(value, &n.in)
		case name == "total_net_output_bytes":
			_, err = fmt.Sscan(value, &n.out)
		}
		if err != nil {
			t.Fatal(line, err)
		}
	}
	return n
}

// fileOf is the append-only file of a server.
func fileOf(t *testing.T, s *redistest.Server) string {
	t.Helper()
	var all []byte
	for _, name := range s.AppendOnlyFiles(t) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return string(all)
}

// TestCycle: what the real server does for an acquire and a release of a lock that has been used, what it adds to its
// file, and the bytes that go there and back. docs/internals/performance.md has the figures.
func TestCycle(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	locks, admin := lock.New(open(t, server, &redisstore.Options{Prefix: redisstore.DefaultPrefix}), nil),
		client(t, server)
	id := lock.ID{Tenant: "acme", Key: "deploy-prod"}
	n := 0
	cycle := func() {
		n++
		request := fmt.Sprintf("%026d", n)
		o, err := locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "caller-1", RequestID: request, TTLSeconds: 60})
		if err != nil || o.Code != lock.OK {
			t.Fatal(o, err)
		}
		if o, err = locks.Release(t.Context(), lock.Release{ID: id, Owner: "caller-1", RequestID: request,
			Token: o.Lease.Token}); err != nil || o.Code != lock.OK {
			t.Fatal(o, err)
		}
	}
	for range 12 { // until it remembers as much as it can
		cycle()
	}
	const cycles = 50
	countsOf(t, admin) // a look is as long as the one before
	before := countsOf(t, admin)
	between := countsOf(t, admin)
	stored := fileOf(t, server)
	for range cycles {
		cycle()
	}
	after := countsOf(t, admin)
	added := fileOf(t, server)[len(stored):]
	if n, all := strings.Count(added, "\r\nmset\r\n")+strings.Count(added, "\r\nMSET\r\n"),
		strings.Count(added, "\r\n*")+1; n != 2*cycles || all != n {
		t.Errorf("%d cycles add %d commands to the file, %d of them MSET: want two for each cycle, and nothing else", cycles,
			all, n)
	}
	t.Logf("%d bytes of the file", len(added)/cycles)
	if len(added)/cycles > 1380 {
		t.Errorf("%d bytes of the file for each cycle, 1380 at most", len(added)/cycles)
	}
	for command, calls := range between.calls {
		if after.calls[command] -= calls; after.calls[command] == 0 {
			delete(after.calls, command)
		}
	}
	want := map[string]int{"evalsha": 2, "time": 2, "mget": 2, "mset": 2}
	for command := range want {
		want[command] *= cycles
	}
	if !maps.Equal(after.calls, want) {
		t.Errorf("%d cycles are %v, want %v", cycles, after.calls, want)
	}
	in, out := (after.in-between.in-(between.in-before.in))/cycles, (after.out-between.out-(between.out-before.out))/cycles
	t.Logf("%d bytes there, %d back", in, out)
	if in > 800 || out > 250 {
		t.Errorf("%d bytes there, 800 at most; %d back, 250 at most", in, out)
	}
}
