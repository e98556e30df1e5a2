package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProve: the command says what it did, writes the page of a seed, and rejects flags that contradict each other.
func TestProve(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "page.html")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--operations", "100"}, exitOK, "No promise was broken."},
		{[]string{"--operations", "100", "--json"}, exitOK, `"name":"one holder"`},
		{[]string{"--seed", "3", "--only", "--page", page}, exitOK, "Seed 3 breaks no promise"},
		{[]string{"--every", "--states", "100"}, exitOK, "a lock with a line"},
		{[]string{"--every", "--seed", "3"}, exitUsage, "--every has no seed"},
		{[]string{"--only"}, exitUsage, "--only needs --seed"},
	} {
		var out bytes.Buffer
		if code := run(t.Context(), append([]string{"prove"}, c.args...), &out, &out); code != c.code ||
			!strings.Contains(out.String(), c.says) {
			t.Errorf("%q: exit code %d\n%s", c.args, code, &out)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil || !bytes.Contains(text, []byte("<svg")) || bytes.Contains(text, []byte("http")) {
		t.Errorf("the page: %d bytes, %v", len(text), err)
	}
}
