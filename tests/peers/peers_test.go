package main

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func quick(t *testing.T) plan { return plan{rounds: 1, times: 16, crash: 1, most: 8, say: t.Logf} }

// TestPeers lets every peer do everything a few times: it works, and costs so many requests.
func TestPeers(t *testing.T) {
	results, skipped, err := quick(t).measure(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range skipped {
		t.Log("skipped: ", s)
	}
	if len(results)+len(skipped) != len(peers) {
		t.Errorf("%d measured and %d skipped of %d", len(results), len(skipped), len(peers))
	}
	// Of a cycle, and of a refusal.
	requests := map[string][2]float64{
		"etcd 3.4, one node":        {2, 2},
		"Leasehold, HTTP on SQLite": {2, 1},
		"Leasehold, HTTP on memory": {2, 1},
		"bsm/redislock":             {2, 1},
		"redsync, one server":       {2, 2},
		"Leasehold on Redis":        {2, 1},
		"Leasehold, HTTP on Redis":  {2, 1},
		"dynamolock 2.0":            {3, 1},
		"Leasehold on DynamoDB":     {2, 1},
	}
	text := page(results, skipped, 1, 0)
	for _, r := range results {
		got := [2]float64{r.counts["cycle"].requests, r.counts["held"].requests}
		if want, ok := requests[r.name]; !ok || got != want {
			t.Errorf("%s: %v requests, want %v", r.name, got, want)
		}
		for name, c := range r.counts {
			if c.bytes <= 0 || math.IsNaN(c.bytes) {
				t.Errorf("%s: %s: %v bytes", r.name, name, c.bytes)
			}
		}
		if len(r.expired) != 1 || !strings.Contains(text, "| "+r.name+" |") {
			t.Errorf("%s: expired %v, in the page\n%s", r.name, r.expired, text)
		}
	}
}

// TestMissingServer: a peer whose server is not installed is skipped, and the page names it.
func TestMissingServer(t *testing.T) {
	compiler, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(compiler))
	if _, err := exec.LookPath("etcd"); err == nil {
		t.Skip("etcd is beside go")
	}
	results, skipped, err := quick(t).measure(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.server == "etcd" || slices.Contains([]string{"redis", "http-redis"}, r.server) {
			t.Errorf("%s was measured", r.name)
		}
	}
	text := page(results, skipped, 1, 0)
	for _, want := range []string{"Not measured: etcd 3.4, one node, because etcd is not installed.",
		"Not measured: Leasehold, HTTP on Redis, because redis-server is not installed."} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q:\n%s", want, text)
		}
	}
}

// TestReplace: the tables stand between the marks of a page, and the rest of it stays.
func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	for _, c := range []struct{ before, after string }{
		{"a\n" + begin + "old\n" + end + "z\n", "a\n" + begin + "\nnew\n\n" + end + "z\n"},
		{"no marks", "no marks"},
		{end + begin, end + begin},
	} {
		if err := os.WriteFile(path, []byte(c.before), 0o600); err != nil {
			t.Fatal(err)
		}
		err := replace(path, "new\n")
		got, _ := os.ReadFile(path)
		if string(got) != c.after || (err == nil) != (c.before != c.after) {
			t.Errorf("%q became %q, want %q; %v", c.before, got, c.after, err)
		}
	}
}
