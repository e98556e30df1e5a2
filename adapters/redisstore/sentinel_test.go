package redisstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/restore"
)

// watched are the options of a store that asks Sentinels for its server.
func watched(p *redistest.Sentinels) redisstore.Options {
	addrs := make([]string, len(p.Sentinels))
	for i, s := range p.Sentinels {
		addrs[i] = s.Addr()
	}
	return redisstore.Options{Addr: strings.Join(addrs, ","), SentinelMaster: redistest.Master, Prefix: "watched"}
}

// untilWritten writes until the store takes it, however long the Sentinels need, and returns the token. Every error
// says that the store is unavailable for now.
func untilWritten(t *testing.T, s *redisstore.Store, k docstore.Key) int64 {
	t.Helper()
	for {
		r, err := s.Write(t.Context(), count(k))
		if err == nil {
			n, _ := r.Docs[0]["token"].(docstore.Int)
			return int64(n)
		}
		if !errors.Is(err, docstore.ErrUnavailable) {
			t.Fatal(err)
		}
	}
}

// TestSentinelFailover: a failover that an operator asks for loses nothing here. The store goes on with the new primary
// by itself.
func TestSentinelFailover(t *testing.T) {
	p := redistest.StartSentinels(t)
	o := watched(p)
	s := open(t, nil, &o)
	before := token(t, s, key("a"))
	if err := client(t, p.Primary).Do(t.Context(), "WAIT", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	p.Failover(t)
	if got := untilWritten(t, s, key("a")); got <= before {
		t.Errorf("token %d after %d", got, before)
	}
	if n := client(t, p.Replica).Exists(t.Context(), "{watched}:doc:locks/acme/a").Val(); n != 1 {
		t.Error("it is not in the new primary")
	}
	if w := strings.Join(s.Warnings(), "\n"); !strings.Contains(w, redistest.Master) || strings.Contains(w, "TLS") {
		t.Errorf("warnings %q", w)
	}
}

// TestSentinelsReplaceADeadPrimary (LS-INV-002), which takes acknowledged writes with it: the process that knows of
// them notices, all others stop, and go on when the tokens were raised.
func TestSentinelsReplaceADeadPrimary(t *testing.T) {
	p := redistest.StartSentinels(t)
	o := redisstore.InsistEvery(time.Millisecond, watched(p))
	s, other := open(t, nil, o), open(t, nil, o)
	highest := max(token(t, s, key("a")), token(t, other, key("b")))
	if err := client(t, p.Primary).Do(t.Context(), "WAIT", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	p.Part(t)
	highest = max(highest, token(t, s, key("a")))
	p.Primary.Kill()
	for { // the server that is gone, then the one that has lost the write
		_, err := s.Write(t.Context(), count(key("a")))
		if isStopped(err) {
			break
		}
		if !errors.Is(err, docstore.ErrUnavailable) {
			t.Fatal(err)
		}
	}
	for {
		_, err := other.Write(t.Context(), count(key("a")))
		if isStopped(err) {
			break
		}
		if !errors.Is(err, docstore.ErrUnavailable) {
			t.Fatalf("the other process: %v", err)
		}
	}
	repairing := *o
	repairing.Repair = true
	if _, err := restore.RaiseTokens(t.Context(), open(t, nil, &repairing), restore.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, process := range []*redisstore.Store{s, other} {
		for _, id := range []string{"a", "b", "c"} {
			if got := goesOn(t, process, key(id)); got <= highest {
				t.Errorf("%s: token %d after %d", id, got, highest)
			}
		}
	}
}

// TestSentinelSettings: what does not fit is rejected before anything is asked, and a Sentinel is not taken for a
// server.
func TestSentinelSettings(t *testing.T) {
	for name, o := range map[string]redisstore.Options{
		"no address": {SentinelMaster: "m"}, "a URL": {SentinelMaster: "m", Addr: "redis://127.0.0.1:1"},
		"a blank": {SentinelMaster: "m", Addr: "127.0.0.1:1, 127.0.0.1:2"},
	} {
		_, err := redisstore.Open(t.Context(), &o)
		says(t, err, []string{"host:port of Sentinels"})
		if err == nil {
			t.Error(name)
		}
	}
	_, err := redisstore.Open(t.Context(), &redisstore.Options{SentinelPassword: "s3cret"})
	says(t, err, []string{"the name of their master"})
	p := redistest.StartSentinels(t)
	_, err = redisstore.Open(t.Context(), &redisstore.Options{Addr: p.Sentinels[0].Addr()})
	says(t, err, []string{"this is a Sentinel", "LEASEHOLD_REDIS_SENTINEL_MASTER"})
	o := watched(p)
	o.SentinelMaster = "unknown"
	_, err = redisstore.Open(t.Context(), &o)
	says(t, err, []string{"unknown", "know no master of this name", p.Sentinels[0].Addr()})
}
