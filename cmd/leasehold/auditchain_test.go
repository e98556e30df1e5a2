package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/cmd/leasehold/internal/audit"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

// chainedNight is the audit of a server over a night, with 1000 events and the one that ends them: 250 leases of two
// locks in turn, of an hour each, which are released after two minutes.
func chainedNight(t *testing.T) []string {
	t.Helper()
	var out bytes.Buffer
	chain := httpapi.ChainAudit(slog.NewJSONHandler(&out, nil))
	log := slog.New(chain)
	at := timeAt(t, "12:00")
	write := func(action, key, owner string, token int, granted, ended time.Time) {
		e := contracts.AuditEvent{
			At: at.Format(contracts.TimeFormat), Clock: "store", Action: action, Kind: "lock", Tenant: "acme", Key: key,
			Owner: owner, FencingToken: int64(token), Mode: "exclusive", GrantedAt: granted.Format(contracts.TimeFormat),
			ExpiresAt: granted.Add(time.Hour).Format(contracts.TimeFormat),
		}
		if !ended.IsZero() {
			e.EndedAt = ended.Format(contracts.TimeFormat)
		}
		httpapi.WriteAuditEvent(t.Context(), log, nil, e)
	}
	for i := range 250 {
		for _, key := range []string{"nightly", "other"} {
			granted := at
			write("lock.acquire", key, owners[i%3], 100+i, granted, time.Time{})
			at = at.Add(time.Minute)
			write("lock.release", key, owners[i%3], 100+i, granted, at)
		}
		at = at.Add(time.Minute)
	}
	if err := chain.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	return slices.Collect(strings.Lines(out.String()))
}

var owners = []string{"ann", "ben", "cho"}

// TestChainOfANight: of a night of a thousand events of which one is removed, changed or added, the audit says which
// stretches are whole, and what is not known because of it.
func TestChainOfANight(t *testing.T) {
	t.Parallel()
	night := chainedNight(t)
	if len(night) != 1001 {
		t.Fatalf("%d events", len(night))
	}
	const released = 401 // the event 402: the release of the lock nightly by ben, with the token 200
	if !strings.Contains(night[released], `"action":"lock.release"`) ||
		!strings.Contains(night[released], `"owner":"ben","fencing_token":200`) {
		t.Fatal(night[released])
	}
	forged := strings.Replace(night[released-1], `"owner":"ben"`, `"owner":"alpha"`, 1)
	for name, c := range map[string]struct {
		change func(lines []string) []string
		whole  bool
		text   []string // that the answer has
		ended  string   // how the lease with the token 200 ended
		owner  string
	}{
		"as it was": {
			func(l []string) []string { return l }, true, []string{"Whole: 1001 events in 1 stream.\n"}, "released", "ben",
		},
		"in another order, and twice": {
			func(l []string) []string {
				other := slices.Clone(l)
				slices.Reverse(other)
				return append(other, l[300:700]...)
			}, true, []string{"Whole: 1001 events in 1 stream.\n"}, "released", "ben",
		},
		"one removed": {
			func(l []string) []string { return slices.Delete(l, released, released+1) }, false,
			[]string{": 1 to 401 are whole, ", ": 402 is missing\n", ": 403 to 1001 are whole, "}, "", "ben",
		},
		"one changed": {
			func(l []string) []string { l[released-1] = forged; return l }, false,
			[]string{": 1 to 400 are whole, ", ": 401 is not as written\n", ": 402 to 1001 are whole, "}, "released", "ben",
		},
		"a release made one of another lock": {
			func(l []string) []string {
				l[released] = strings.Replace(l[released], `"key":"nightly"`, `"key":"daily"`, 1)
				return l
			}, false, []string{": 402 is not as written\n"}, "", "ben",
		},
		"a member more": {
			func(l []string) []string {
				l[released-1] = strings.Replace(l[released-1], `"schema":1`, `"schema":1,"by":"alpha"`, 1)
				return l
			}, false, []string{": 401 is not as written\n"}, "released", "ben",
		},
		"one added, with a number of its own": {
			func(l []string) []string {
				return slices.Insert(l, released, strings.Replace(forged, `"number":401`, `"number":1002`, 1))
			}, false, []string{": 1 to 1000 are whole, ", ": 1001 to 1002 are not as written\n"}, "released", "ben",
		},
		"one added, chained to the end": {
			func(l []string) []string {
				var end struct{ Audit contracts.AuditEvent }
				if err := json.Unmarshal([]byte(l[1000]), &end); err != nil {
					t.Error(err)
				}
				e := strings.Replace(forged, `"number":401`, `"number":1002`, 1)
				i := strings.Index(e, `"previous":"`) + len(`"previous":"`)
				return append(l, e[:i]+end.Audit.Hash()+e[i+len(end.Audit.Hash()):])
			}, false, []string{": 1 to 1001 are whole, ", ": 1002 is behind the end of the stream\n"}, "released", "ben",
		},
		"one added, with the number of another": {
			func(l []string) []string { return slices.Insert(l, released, forged) }, false,
			[]string{": 1 to 401 are whole, ", ": another event with the number 401 was added\n", ": 402 to 1001 are whole, "},
			"released", "ben",
		},
		"one added, in no stream": {
			func(l []string) []string {
				e := strings.Replace(forged, `"stream":`, `"was":`, 1)
				return slices.Insert(l, released, strings.Replace(e, `"fencing_token":200`, `"fencing_token":5000`, 1))
			}, false, []string{"In no stream: 1 event; they may have been added, and are left out.\n"}, "released", "ben",
		},
		"two swapped": { // with their numbers, so that their lines are where they were
			func(l []string) []string {
				l[700], l[701] = strings.Replace(l[701], `"number":702`, `"number":701`, 1),
					strings.Replace(l[700], `"number":701`, `"number":702`, 1)
				return l
			}, false, []string{": 1 to 699 are whole, ", ": 700 to 702 are not as written\n", ": 703 to 1001 are whole, "},
			"released", "ben",
		},
		"the end cut off": {
			func(l []string) []string { return l[:900] }, true,
			[]string{"Whole: 900 events in 1 stream.\nWithout an end: 1 stream; later events of it may be missing, "},
			"released", "ben",
		},
		"the begin cut off": { // as when it was rotated away
			func(l []string) []string { return l[100:] }, true, []string{"Whole: 901 events in 1 stream.\n"}, "released", "ben",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := save(t, "audit.jsonl", strings.Join(c.change(slices.Clone(night)), ""))
			a, errs, code := askAbout(t, "", []string{"--lock", "nightly"}, file)
			if code != exitOK || errs != "" {
				t.Fatalf("exit code %d, %s", code, errs)
			}
			if a.Chain.Whole != c.whole {
				t.Errorf("whole: %v, %+v", a.Chain.Whole, a.Chain)
			}
			text := auditAnswer(a)
			for _, want := range c.text {
				if !strings.Contains(text, want) {
					t.Errorf("%q is not in %s", want, text[strings.LastIndex(text, "next"):])
				}
			}
			i := slices.IndexFunc(a.Leases, func(l contracts.RecordedLease) bool { return l.FencingToken == 200 })
			if i < 0 || a.Leases[i].Ended != c.ended || a.Leases[i].Owner != c.owner || a.Leases[i].EndedBy != "" {
				t.Errorf("the lease with the token 200: %+v", a.Leases[max(0, i)])
			}
			if strings.Contains(text, "replaced") || strings.Contains(text, "alpha") {
				t.Errorf("it says more than is known: %s", text)
			}
		})
	}
}

// TestDoubtWhereEventsAreMissing: what events may have said that are missing is not known: a lease may have ended, and
// someone may have had what no one else had.
func TestDoubtWhereEventsAreMissing(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	first := n.play()
	lines := slices.Collect(strings.Lines(n.audit.String()))
	without := func(action, owner string) string {
		var left []string
		for _, l := range lines {
			if !strings.Contains(l, fmt.Sprintf("%q:%q", "action", action)) ||
				!strings.Contains(l, fmt.Sprintf("%q:%q", "owner", owner)) {
				left = append(left, l)
			}
		}
		if len(left) != len(lines)-1 {
			t.Fatalf("%d of %d events are left without %s of %s", len(left), len(lines), action, owner)
		}
		return save(t, "audit.jsonl", strings.Join(left, ""))
	}
	ann, eve := without("lock.release", "ann"), without("lock.give_up", "dan")
	for _, q := range []struct {
		file, clock, want string
		unknown           bool
	}{
		{ann, "22:05", "ann+0, granted 22:00,  22:10:05, then ben+1", false},
		{ann, "22:10", "possibly ann+0, granted 22:00,  22:10:05, then ben+1; " +
			"after ben+1 in line, granted 22:10:05, expired 22:30, then cho+2", false},
		{ann, "22:15", "possibly ben+1 in line, granted 22:10:05, expired 22:30, then cho+2; " +
			"before ann+0, granted 22:00,  22:10:05, then ben+1; " +
			"after cho+2 took over, granted 22:30, forced 22:35 by root: it hangs, then dan+3", false},
		{eve, "22:05", "ann+0, granted 22:00, released 22:10:05, then ben+1", false},
		{eve, "22:43", "possibly dan+3, granted 22:40,  22:44, then eve+4; " +
			"before cho+2 took over, granted 22:30, forced 22:35 by root: it hangs, then dan+3; " +
			"after eve+4, granted 22:44, released 22:44:30, then fay+5", false},
	} {
		a, _, code := ask(t, q.clock, "nightly", q.file)
		if got := summary(a, first); got != q.want || code != exitOK || a.Unknown != q.unknown {
			t.Errorf("%s\ngot  %s\nwant %s\nexit code %d, unknown %v", q.clock, got, q.want, code, a.Unknown)
		}
	}
	var about []string // all that has to do with eve's lease
	for _, l := range lines {
		if !strings.Contains(l, `"owner":"eve"`) {
			about = append(about, l)
		}
	}
	a, _, code := ask(t, "22:44:10", "nightly", save(t, "audit.jsonl", strings.Join(about, "")))
	const notKnown = ": not known, events that may say so are missing\n"
	if !a.Unknown || code != exitOK || len(a.Holders) != 0 || !strings.Contains(auditAnswer(a), notKnown) {
		t.Errorf("exit code %d: %s", code, auditAnswer(a))
	}
	a, _, code = ask(t, "22:36", "nightly", save(t, "audit.jsonl", strings.Join(about, "")))
	if a.Unknown || code != exitMissing {
		t.Errorf("before the hole: exit code %d: %s", code, auditAnswer(a))
	}
}

// TestReplacedIsSaid: that a lease was replaced is said because the event of the next one says so.
func TestReplacedIsSaid(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	for _, at := range []string{"22:00", "22:10"} {
		n.send(at, "acquire", `{"owner_id":"push","request_id":"of-`+at+`","ttl_seconds":3600,"replace":true}`, 200)
	}
	a, _, _ := ask(t, "22:05", "nightly", save(t, "audit.jsonl", n.audit.String()))
	if len(a.Holders) != 1 || a.Holders[0].Ended != audit.Replaced || !*a.Holders[0].Certain ||
		a.Holders[0].EndedBy != "push" {
		t.Errorf("%+v", a)
	}
}

// TestChainOfRotatedFiles: a stream goes on when its file is rotated, and an event that the file did not take has no
// number in it.
func TestChainOfRotatedFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	file, err := openAuditFile(path, 4096, 100, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	log, end := chained(slog.NewJSONHandler(file, nil))
	for range 50 {
		httpapi.WriteAuditEvent(t.Context(), log, nil, contracts.AuditEvent{Action: "lock.acquire"})
	}
	if err := errors.Join(end(), file.close()); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) < 4 {
		t.Fatalf("%v, files %v", err, files)
	}
	a, _, _ := askAbout(t, "", []string{"--lock", "none"}, files...)
	if !a.Chain.Whole || a.Chain.Events != 51 || a.Chain.Streams != 1 || a.Chain.Unended != 0 {
		t.Errorf("%+v", a.Chain)
	}
}
