package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestWatch: what changes is printed, once, until a signal ends the command; renewals are not shown.
func TestWatch(t *testing.T) {
	store := docstore.NewMemory(nil)
	locks := lock.New(store, nil)
	server := httptest.NewServer(httpapi.New(store, httpapi.Development{}, nil))
	defer server.Close()
	id := func(key string) lock.ID { return lock.ID{Tenant: "default", Key: key} }
	acquire := func(key, request string) (token int64) {
		o, err := locks.Acquire(t.Context(), lock.Acquire{ID: id(key), Owner: "ann", RequestID: request, TTLSeconds: 60})
		if err != nil || o.Code != lock.OK {
			t.Fatalf("%+v, %v", o, err)
		}
		return o.Lease.Token
	}
	release := func(key string, token int64) {
		if o, err := locks.Release(t.Context(), lock.Release{ID: id(key), Owner: "ann", RequestID: "e-" + key,
			Token: token}); err != nil || o.Code != lock.OK {
			t.Fatalf("%+v, %v", o, err)
		}
	}
	begin := func(args string) (next func(want string), end func()) {
		ctx, interrupt := context.WithCancel(t.Context())
		out, in := io.Pipe()
		lines := bufio.NewScanner(out)
		code := make(chan int, 1)
		go func() {
			code <- run(ctx, append(strings.Fields(args), "--server", server.URL, "--interval", "100ms"), in, io.Discard)
			_ = in.Close()
		}()
		next = func(want string) {
			t.Helper()
			lines.Scan()
			got := strings.Join(strings.Fields(lines.Text()), " ")
			if strings.HasPrefix(got, "{") {
				var l contracts.Lock
				_ = json.Unmarshal(lines.Bytes(), &l)
				got = "default " + l.LockKey + " " + string(l.State)
			}
			if !strings.HasPrefix(got, want) {
				t.Fatalf("%s: got %q, want %q", args, got, want)
			}
		}
		end = func() {
			t.Helper()
			interrupt()
			if lines.Scan() {
				t.Errorf("%s: then %q", args, lines.Text())
			}
			if c := <-code; c != exitInterrupted {
				t.Errorf("%s: exit code %d", args, c)
			}
		}
		return next, end
	}
	token := acquire("a", "a1")
	one, oneEnds := begin("lock get a --watch")
	list, listEnds := begin("lock list --watch")
	missing, missingEnds := begin("lock get b -w -o json")
	one("TENANT LOCK")
	one("default a ACTIVE ann")
	list("TENANT LOCK")
	list("default a ACTIVE ann")
	if o, err := locks.Renew(t.Context(), lock.Renew{ID: id("a"), Owner: "ann", RequestID: "n1", Token: token,
		TTLSeconds: 3600}); err != nil || o.Code != lock.OK {
		t.Fatalf("%+v, %v", o, err)
	}
	acquire("b", "b1")
	missing("default b ACTIVE")
	list("default b ACTIVE ann") // not the renewal of a
	release("a", token)
	one("default a RELEASED")
	list("default a RELEASED ann") // though it is not in the list of held locks any more
	acquire("a", "a2")
	one("default a ACTIVE")
	list("default a ACTIVE ann")
	oneEnds()
	listEnds()
	missingEnds()

	var out, errs strings.Builder
	if code := run(t.Context(), []string{"lock", "list", "--watch", "--interval", "1ms"}, &out,
		&errs); code != exitUsage || !strings.Contains(errs.String(), "--interval 1ms") {
		t.Errorf("%d %s", code, &errs)
	}
}
