package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestRaiseTokensGoesOn: Ctrl-C stops the command after what it writes, and it says how to go on; the same command with
// the name that it says raises the rest and nothing else.
func TestRaiseTokensGoesOn(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "x")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "x")
	const documents, parallel = 100, 4
	emulator := dynamodbtest.New(nil)
	var mu sync.Mutex
	updates, stopAt, interrupt := 0, 0, func() {}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".UpdateItem") {
			mu.Lock()
			if updates++; updates == stopAt {
				interrupt()
			}
			mu.Unlock()
		}
		emulator.ServeHTTP(w, r)
	}))
	defer server.Close()
	store, err := awsdynamodb.Open(t.Context(), "locks", &awsdynamodb.Options{Region: "eu-west-1", Endpoint: server.URL,
		CreateTable: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for i := range documents {
		w := docstore.Write{Key: docstore.Key{Kind: lock.FenceKind, Tenant: "acme", ID: strconv.Itoa(i)},
			Set: docstore.Doc{"token": docstore.Int(7)}}
		if _, err := store.Write(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	type result struct {
		Name    string
		Token   int64
		Resumed bool
		Kinds   []struct{ Raised, Current int }
	}
	raise := func(ctx context.Context, more string) (code int, out, said string) {
		t.Helper()
		mu.Lock()
		updates = 0
		mu.Unlock()
		var stdout, stderr bytes.Buffer
		code = run(ctx, strings.Fields("store raise-tokens --store dynamodb --table locks --region eu-west-1 --endpoint "+
			server.URL+" --parallel "+strconv.Itoa(parallel)+" "+more), &stdout, &stderr)
		return code, stdout.String(), stderr.String()
	}
	interrupted := func(more string) (out, said string) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		mu.Lock()
		stopAt, interrupt = 1+20, cancel // the raise, and 20 documents
		mu.Unlock()
		code, out, said := raise(ctx, more)
		mu.Lock()
		defer mu.Unlock()
		if stopAt = 0; code != exitInterrupted || updates < 21 || updates > 20+parallel {
			t.Errorf("exit code %d, %d writes: %s %s", code, updates, out, said)
		}
		return out, said
	}
	out, said := interrupted("")
	name := regexp.MustCompile(`--name ([0-9]{16})\n`).FindStringSubmatch(said)
	if name == nil || strings.Contains(out, "Start the servers") || !strings.Contains(said, "start no server") {
		t.Fatalf("%q %q", out, said)
	}
	first := updates - 1
	code, out, said := raise(t.Context(), "--json --name "+name[1])
	var r result
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != exitOK || said != "" || !r.Resumed ||
		r.Name != name[1] || strconv.FormatInt(r.Token, 10) != name[1] || r.Kinds[3].Raised != documents-first ||
		r.Kinds[3].Current != first || updates != documents-first {
		t.Errorf("exit code %d, %v: %s %s; %d writes after %d", code, err, out, said, updates, first)
	}

	if out, said = interrupted("--json --name tuesday"); out != "" {
		t.Errorf("%q", out)
	}
	var problem failure
	if err := json.Unmarshal([]byte(said), &problem); err != nil || problem.Code != "INTERRUPTED" ||
		!strings.HasSuffix(problem.Detail, "--name tuesday") {
		t.Errorf("%v: %s", err, said)
	}
	if code, out, said = raise(t.Context(), "--name tuesday"); code != exitOK || said != "" ||
		!strings.Contains(out, "Start the servers in a minute, not before") {
		t.Errorf("exit code %d: %s %s", code, out, said)
	}
	if out, said = interrupted("--name tuesday"); !strings.Contains(said, "--name tuesday") { // it had ended: a new one
		t.Errorf("%s %s", out, said)
	}
	if code, out, said = raise(t.Context(), "--dry-run --name tuesday --json"); code != exitOK ||
		!strings.Contains(out, `"resumed":true`) || updates != 0 {
		t.Errorf("exit code %d: %s %s", code, out, said)
	}
	for flag, says := range map[string]string{"--parallel=-1": "--parallel is -1", "--parallel 257": "--parallel is 257",
		"--name " + strings.Repeat("x", 129): "--name has 129 bytes"} {
		if code, out, said = raise(t.Context(), flag); code != exitUsage || !strings.Contains(said, says) {
			t.Errorf("%s: exit code %d: %s %s", flag, code, out, said)
		}
	}
}

// batches is a store that removes so many batches, and then ends something.
type batches struct {
	left int
	end  func()
	err  error
}

func (b *batches) Prune(ctx context.Context, limit int) (int, error) {
	switch b.left--; {
	case b.left > 0:
		return limit, nil
	case b.left < 0:
		return 0, nil
	}
	if b.end(); ctx.Err() != nil {
		return 0, ctx.Err()
	}
	return limit, b.err
}

// TestPruneInterrupted: Ctrl-C stops prune after the batch that is under way, and what was removed is said.
func TestPruneInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var out, errs bytes.Buffer
	err := (&pruneCmd{}).prune(ctx, &batches{left: 3, end: cancel}, "in x", &streams{&out, &errs})
	if code := report(ctx, err, false, &streams{&out, &errs}); code != exitInterrupted || out.Len() > 0 ||
		errs.String() != "leasehold: interrupted: removed 1500 documents in x; run it again to go on\n" {
		t.Errorf("exit code %d: %q %q", code, &out, &errs)
	}
	broken := &batches{left: 2, end: func() {}, err: errors.New("disk on fire")}
	if err := (&pruneCmd{}).prune(t.Context(), broken, "in x", &streams{&out, &errs}); err == nil ||
		err.Error() != "removed 1000 documents, then: disk on fire" {
		t.Error(err)
	}
}

// TestProgress: a command that is done in three seconds says nothing, one that takes longer how far it is, and nothing
// of it where no one reads it.
func TestProgress(t *testing.T) {
	for name, c := range map[string]struct {
		flags progressFlags
		takes time.Duration
		want  string
	}{
		"short": {progressFlags{true}, 29 * time.Second / 10, ""},
		"long": {progressFlags{true}, 14 * time.Second, `leasehold: 30 documents in 3s, 10 a second; now locks
leasehold: store away; trying again
leasehold: 80 documents in 8s, 10 a second; now locks
leasehold: 160 documents in 13s, 16 a second; now fences
`},
		"no terminal": {progressFlags{}, 14 * time.Second, "leasehold: store away; trying again\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var errs bytes.Buffer
				p, stop := c.flags.begin(t.Context(), &streams{nil, &errs})
				began := time.Now()
				time.Sleep(50 * time.Millisecond)
				for i := 0; time.Since(began) < c.takes; i++ {
					if i == 50 || i == 70 {
						p.trouble(errors.New("store away"))
					}
					if i < 100 {
						p.add(1, "locks")
					} else {
						p.add(2, "fences")
					}
					time.Sleep(100 * time.Millisecond)
				}
				stop()
				if errs.String() != c.want {
					t.Errorf("it says\n%s\nwant\n%s", &errs, c.want)
				}
			})
		})
	}
}
