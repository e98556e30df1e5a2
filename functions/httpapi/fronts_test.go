package httpapi_test

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/internal/fencing"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

var update = flag.Bool("update", false, "write the table of names into docs/guides/aws.md")

// kindsOfNames are names by what they have, which is the head of a column.
var kindsOfNames = []struct {
	head  string
	names []string
}{
	{"`/`", []string{"a/b", "/a", "a//b", "a/release", "x/locks/k"}},
	{"`%`", []string{"%", "100%", "a%2Fb", "%25", "%zz"}},
	{"`+`", []string{"+", "a+b"}},
	{"space", []string{" ", "a b"}},
	{"dots", []string{"...", ".a", "a.", "a..b"}},
	{"not ASCII", []string{"é", "日本語", "😀"}},
	{"`#`, `;`, `&`, `=`", []string{"a#b", "a;b", "a&b=c"}},
	{"`?`", []string{"?", "a?b", "a/release?x"}},
}

// TestClientsThroughFrontEnds: our client does its work under names of all kinds through all front ends, or is refused
// by a code that says which front end changes paths. Names are in paths, in queries and in bodies.
func TestClientsThroughFrontEnds(t *testing.T) {
	for name, front := range fronts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			transport, base := front(t, httpapi.New(docstore.NewMemory(nil), &of{"acme"}, nil))
			c, err := client.New(base, &client.Options{HTTP: transport, Tries: 1})
			if err != nil {
				t.Fatal(err)
			}
			for _, kind := range kindsOfNames {
				for _, n := range kind.names {
					err := allWork(t, c, n)
					if name == "http-api" && strings.Contains(n, "?") { // it cuts the name there
						if err == nil || !strings.Contains(err.Error(), "AMBIGUOUS_PATH") || !strings.Contains(err.Error(), "HTTP API") {
							t.Errorf("%q: %v", n, err)
						}
					} else if err != nil {
						t.Errorf("%q: %v", n, err)
					}
				}
			}
		})
	}
}

// allWork uses a lock, a run, a fence and an identity of this name, and a member that is called as its caller. The
// client checks that responses are about what it asked for.
func allWork(t *testing.T, c *client.Client, name string) error {
	t.Helper()
	ctx, locks := t.Context(), c.LockAPI()
	lease, err := locks.Acquire(ctx, "acme", name, contracts.AcquireRequest{RequestID: "r", TTLSeconds: 60})
	if err != nil {
		return err
	}
	if lease.LockKey != name {
		t.Errorf("acquired %q, not %q", lease.LockKey, name)
	}
	page, err := locks.List(ctx, "acme", client.LockQuery{Prefix: name, Owner: "svc"})
	if err != nil {
		return err
	}
	if len(page.Locks) != 1 || page.Locks[0].LockKey != name {
		t.Errorf("the locks that begin with %q are %+v", name, page.Locks)
	}
	if _, err := locks.Release(ctx, "acme", name, contracts.ReleaseRequest{
		FencingToken: lease.FencingToken}); err != nil {
		return err
	}
	if _, err := c.Fences().Check(ctx, "acme", name, fencing.OfLock(name, 0, lease.FencingToken)); err != nil {
		return err
	}
	if !strings.Contains(name, "/") { // the name of a run has none
		runs := c.Runs("acme")
		g, err := runs.Acquire(ctx, once.Acquire{RunID: name, RequestID: "r", TTL: time.Minute})
		if err != nil {
			return err
		}
		if err := runs.Finish(ctx, g.Lock, once.Result{Result: name}); err != nil {
			return err
		}
		all, err := runs.List(ctx, client.RunQuery{Prefix: name})
		if err != nil {
			return err
		}
		if len(all.Runs) != 1 || all.Runs[0].RunID != name {
			t.Errorf("the runs that begin with %q are %+v", name, all.Runs)
		}
	}
	const member = "svc#1"
	members := c.Placements("acme", fmt.Sprintf("c%x", name)) // of its own: it places identities on its members
	m, err := members.Join(ctx, member, contracts.MemberJoinRequest{RequestID: "r" + name, TTLSeconds: 60,
		Kinds: contracts.Kinds{"room"}})
	if err != nil {
		return err
	}
	a, err := members.Claim(ctx, "room", name, contracts.ActivationClaimRequest{Member: member, Incarnation: m.Incarnation,
		RequestID: "r"})
	if err != nil {
		return err
	}
	if a.Activation.ID != name {
		t.Errorf("claimed %q, not %q", a.Activation.ID, name)
	}
	if found, err := members.Lookup(ctx, "room", name, cluster.Query{}); err != nil {
		return err
	} else if found.Activation == nil || found.Activation.ID != name {
		t.Errorf("%+v is found for %q", found.Activation, name)
	}
	return nil
}

// TestTableOfNames: docs/guides/aws.md says what becomes of names behind each front end, as it does.
func TestTableOfNames(t *testing.T) {
	const path = "../../docs/guides/aws.md"
	all, s := calls(t), newStage(t)
	head, line := "| In front of the API | Request of |", "| --- | --- |"
	for _, kind := range kindsOfNames {
		head, line = head+" "+kind.head+" |", line+" --- |"
	}
	lines := []string{head, line}
	for _, front := range slices.Sorted(maps.Keys(fronts)) {
		label := strings.NewReplacer("`Cloud", "Cloud", "serve", "leasehold serve", " with lists", "`, multi-value headers").
			Replace("`" + front)
		if strings.Count(label, "`") == 1 {
			label += "`"
		}
		rows := map[bool]string{}
		for _, header := range []bool{true, false} {
			for _, kind := range kindsOfNames {
				rows[header] += " " + became(t, s, front, kind.names, header, all) + " |"
			}
		}
		if rows[true] == rows[false] {
			lines = append(lines, "| "+label+" | any client |"+rows[true])
			continue
		}
		lines = append(lines, "| "+label+" | our clients |"+rows[true], "| "+label+" | others |"+rows[false])
	}
	table := strings.Join(lines, "\n") + "\n"
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	part := regexp.MustCompile(`(?s)(<!-- table: names -->\n).*?(<!-- end -->\n)`)
	want := part.ReplaceAll(content, []byte("${1}"+table+"${2}"))
	switch {
	case !part.Match(content):
		t.Errorf("%s has no place for the table of names", path)
	case *update:
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	case string(want) != string(content):
		t.Errorf("%s differs: run go test ./functions/httpapi -run TestTableOfNames -update. It must have\n%s", path, table)
	}
}

// became is what becomes of requests with names of a kind behind a front end.
func became(t *testing.T, s *stage, front string, names []string, header bool, all []call) string {
	t.Helper()
	work, ambiguous, others := 0, 0, 0
	for _, name := range names {
		for _, c := range all {
			q := c.named("acme", name, spellings[0])
			if !strings.Contains(q.path, spellings[0](name)) {
				continue // it has no name that may have a "/"
			}
			q.header = header
			switch want, got := s.send(t, "nothing", "acme", q), s.send(t, front, "acme", q); {
			case got == want:
				work++
			case got.code == "AMBIGUOUS_PATH" && got.status == http.StatusBadRequest:
				ambiguous++
			default:
				others++
			}
		}
	}
	switch {
	case others > 0:
		return "may be another's"
	case ambiguous == 0:
		return "yes"
	case work == 0:
		return "`AMBIGUOUS_PATH`"
	}
	return "yes, or `AMBIGUOUS_PATH`"
}
