package tests

import (
	"cmp"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// volatile members differ from run to run; what counts is that they are there.
var volatile = []string{
	"acquired_at", "expires_at", "released_at", "lease_id", "instance", "retry_after_ms", "remaining_ms",
}

// TestReadmeIsReal sends the README's requests to a new server, in its order, and compares the answers with the output
// that the README shows.
func TestReadmeIsReal(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, "--data", t.TempDir())
	exchange := regexp.MustCompile(`(?m)^\$ curl -s (?:-X (PUT) )?http://127\.0\.0\.1:8080(\S+)(?: -d '([^']+)')?\n(.+)$`)
	found := exchange.FindAllStringSubmatch(string(page), -1)
	if prompts := strings.Count(string(page), "\n$ "); len(found) != prompts || prompts < 5 {
		t.Fatalf("the README has %d prompts, %d of them understood", prompts, len(found))
	}
	for _, e := range found {
		method, path, body, want := cmp.Or(e[1], http.MethodPost), e[2], e[3], e[4]
		request, err := http.NewRequestWithContext(t.Context(), method, p.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded") // as curl -d does
		r, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if g, w := stable(t, got), stable(t, []byte(want)); !reflect.DeepEqual(g, w) {
			t.Errorf("%s %s\ngot     %s\nREADME  %s", path, body, got, want)
		}
	}
}

// stable is a JSON object with its volatile members made equal.
func stable(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	for _, name := range volatile {
		if m[name] != nil {
			m[name] = "…"
		}
	}
	return m
}

// TestHouseIsWhole: what people look for is there, and links between the pages lead somewhere.
func TestHouseIsWhole(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"LICENSE", "Makefile", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"} {
		if _, err := os.Stat(filepath.Join("..", file)); err != nil {
			t.Error(err)
		}
	}
	link := regexp.MustCompile(`\]\(([^)#:]+)\)`)
	pages := 0
	err := filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && strings.HasPrefix(e.Name(), ".") && e.Name() != ".." {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".md") {
			return nil
		}
		pages++
		page, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(string(page), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", path, m[1], err)
			}
		}
		return nil
	})
	if err != nil || pages < 8 {
		t.Errorf("%d pages, %v", pages, err)
	}
}
