package tests

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/redis/go-redis/v9"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
)

// TestWhatOneServerNotices: two servers on a Redis that loses a write of the first. When the first has noticed, neither
// the second nor one that starts then grants anything, and none is ready. After raise-tokens both go on, above the
// token that was lost.
func TestWhatOneServerNotices(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	admin := sdk.NewClient(&sdk.Options{Addr: redis.Addr()})
	defer admin.Close()
	store := []string{"--store", "redis", "--redis-addr", redis.URL(), "--redis-shards", "4"}
	begin := func() string { return start(t, store...).url }
	acquire := func(url, key string) (client.Lease, error) {
		c, err := client.New(url, &client.Options{Tries: 1})
		if err != nil {
			t.Fatal(err)
		}
		return c.LockAPI().Acquire(t.Context(), "acme", key, contracts.AcquireRequest{RequestID: "r-" + key, OwnerID: "ann",
			TTLSeconds: 3600})
	}
	ready := func(url string) int {
		r, err := http.Get(url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		return r.StatusCode
	}
	first, second := begin(), begin()
	if _, err := acquire(first, "before"); err != nil {
		t.Fatal(err)
	}
	keys := admin.Keys(t.Context(), "*").Val()
	backup := map[string]string{}
	for _, k := range keys {
		backup[k] = admin.Dump(t.Context(), k).Val()
	}
	lost, err := acquire(first, "lost")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range admin.Keys(t.Context(), "*").Val() {
		if !slices.Contains(keys, k) {
			admin.Del(t.Context(), k)
		}
	}
	for k, v := range backup {
		if err := admin.RestoreReplace(t.Context(), k, 0, v).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := acquire(first, "x"); err == nil {
		t.Fatal("the first does not notice")
	}
	code, _, errors := run(t, nil, append([]string{"serve", "--listen", "127.0.0.1:0"}, store...)...)
	if code != 1 || !strings.Contains(errors, "raise-tokens") {
		t.Errorf("one that starts: %d, %s", code, errors)
	}
	all := []string{first, second}
	for i, url := range all {
		if l, err := acquire(url, "lost"); err == nil {
			t.Errorf("server %d grants %d after %d was lost", i, l.FencingToken, lost.FencingToken)
		}
	}
	for i, url := range all {
		// it asks the store every two seconds
		for deadline := time.Now().Add(time.Minute); ready(url) != http.StatusServiceUnavailable; {
			if time.Now().After(deadline) {
				t.Fatalf("server %d is ready", i)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	if code, out, errors := run(t, nil, append([]string{"store", "prune"}, store...)...); code == 0 ||
		!strings.Contains(errors, "raise-tokens") {
		t.Errorf("prune: %d, %s, %s", code, out, errors)
	}
	if code, out, errors := run(t, nil, append([]string{"store", "raise-tokens"}, store...)...); code != 0 {
		t.Fatalf("raise-tokens: %d, %s, %s", code, out, errors)
	}
	for i, url := range all {
		for deadline := time.Now().Add(time.Minute); ready(url) != http.StatusOK; {
			if time.Now().After(deadline) {
				t.Fatalf("server %d is not ready any more", i)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	if l, err := acquire(second, "lost"); err != nil || l.FencingToken <= lost.FencingToken {
		t.Errorf("token %d after %d, %v", l.FencingToken, lost.FencingToken, err)
	}
}
