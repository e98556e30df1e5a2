package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// volatile members differ from run to run; the test only checks that they are present.
var volatile = []string{
	"acquired_at", "expires_at", "released_at", "lease_id", "instance", "retry_after_ms", "remaining_ms",
	"since", "until", "ended_at", "free_at", "at", "waited_ms",
}

// promptLine is a line of a page that starts with a prompt: curl with a body, piped into jq with an optional list
// of members. inBackground is one that waits while the next ones are typed.
var (
	promptLine = regexp.MustCompile(
		`^\$ curl -s http://127\.0\.0\.1:8080(\S+)(?: -d '([^']+)')? \| jq(?: -c)?(?: '\{([a-z_, ]+)\}')?$`)
	inBackground = regexp.MustCompile(`^\$ curl -s http://127\.0\.0\.1:8080(\S+)/acquire -d '([^']+)' >/dev/null &$`)
)

// TestReadmeIsReal sends the requests of the guides about locks to a new server, in order, and compares
// the responses with the output that the page shows.
func TestReadmeIsReal(t *testing.T) {
	t.Parallel()
	for page, least := range map[string]int{
		"docs/guides/locks.md": 5, "docs/guides/modes.md": 19,
	} {
		t.Run(page, func(t *testing.T) { pageIsReal(t, page, least) })
	}
}

func pageIsReal(t *testing.T, page string, least int) {
	t.Parallel()
	p := start(t, "--data", t.TempDir())
	exchanges := 0
	values := map[string]string{} // tokens and times of the page's run, and of this one
	for _, block := range blocks(t, page, "console") {
		for prompt := range strings.SplitSeq("\n"+block, "\n$ ") {
			if prompt == "" {
				continue
			}
			line, output, _ := strings.Cut(prompt, "\n")
			if c := inBackground.FindStringSubmatch("$ " + strings.TrimSpace(line)); c != nil {
				waitsInLine(t, p.url+c[1], c[2])
				continue
			}
			c := promptLine.FindStringSubmatch("$ " + line)
			if c == nil {
				t.Errorf("the test does not understand %q", line)
				continue
			}
			exchanges++
			body, method := c[2], http.MethodPost
			for theirs, ours := range values {
				body = strings.ReplaceAll(body, theirs, ours)
			}
			if body == "" {
				method = http.MethodGet
			}
			got := exchange(t, method, p.url+c[1], body)
			if c[3] != "" {
				got = only(got, strings.Split(c[3], ", "))
			}
			var want map[string]any
			if err := json.Unmarshal([]byte(output), &want); err != nil {
				t.Fatalf("%s\nshows no JSON object: %v\n%s", line, err, output)
			}
			theirs, _ := want["fencing_token"].(float64)
			if ours, ok := got["fencing_token"].(float64); ok && theirs > 1e15 && ours > 1e15 { // they begin at the store's time
				values[fmt.Sprintf(`"fencing_token":%.0f`, theirs)] = fmt.Sprintf(`"fencing_token":%.0f`, ours)
				want["fencing_token"] = ours
			}
			if theirs, ok := want["expires_at"].(string); ok {
				values[theirs], _ = got["expires_at"].(string)
			}
			if steady(got); !reflect.DeepEqual(got, steady(want)) {
				t.Errorf("%s\ngot   %v\npage  %v", line, got, want)
			}
		}
	}
	if exchanges < least {
		t.Errorf("only %d exchanges found in %s", exchanges, page)
	}
}

// TestReadmeScript runs the README's command with work that succeeds, that fails, that loses its lock, and that is
// interrupted.
func TestReadmeScript(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the work is a Unix shell script")
	}
	leasehold := binary(t)
	p := start(t, "--store", "memory")
	var script string
	for _, block := range blocks(t, "README.md", "sh") {
		if strings.HasPrefix(block, "leasehold lock run deploy-prod ") {
			script, _, _ = strings.Cut(block, " -- ")
			script += " --ttl 4s -- ./deploy" // so that a loss is noticed soon
		}
	}
	for _, c := range []struct {
		name, deploy string
		key          string
		status       int
	}{
		{"success", `[ "$LEASEHOLD_FENCING_TOKEN" -gt 0 ]`, "script-ok", 0},
		{"failure", "exit 7", "script-fails", 7},
		{"lost", `leasehold lock force-release script-lost --reason test >/dev/null; exec sleep 600`, "script-lost", 121},
		{"interrupted", `trap 'exit 9' TERM; while kill -TERM $PPID; do sleep 0.1; done`, "script-interrupted", 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, text := range map[string]string{"deploy": "#!/bin/sh\n" + c.deploy, "run": "#!/bin/sh\n" +
				strings.ReplaceAll(script, "deploy-prod", c.key)} {
				program(t, filepath.Join(dir, name), text)
			}
			cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "run"))
			cmd.Dir = dir
			cmd.Env = append(environment(), "LEASEHOLD_SERVER="+p.url, "PATH="+filepath.Dir(leasehold)+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if e, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
				t.Fatal(err)
			} else if cmd.ProcessState.ExitCode() != c.status {
				t.Errorf("exit status %v (%v), want %d\n%s", cmd.ProcessState, e, c.status, out)
			}
			if _, stdout, stderr := run(t, []string{"LEASEHOLD_SERVER=" + p.url}, "lock", "get",
				c.key); !strings.Contains(stdout, "RELEASED") {
				t.Errorf("the lock afterwards: %s%s\n%s", stdout, stderr, out)
			}
		})
	}
}

// TestReadmeCommands runs the README's other commands: a nightly job, which runs once, and IDs.
func TestReadmeCommands(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the work is a Unix shell script")
	}
	leasehold := binary(t)
	p := start(t, "--store", "memory")
	dir := t.TempDir()
	paste := func(beginning string) string {
		for _, block := range blocks(t, "README.md", "sh") {
			if strings.HasPrefix(block, beginning) {
				cmd := exec.CommandContext(t.Context(), "sh", "-c", block)
				cmd.Dir = dir
				cmd.Env = append(environment(), "LEASEHOLD_SERVER="+p.url, "PATH="+filepath.Dir(leasehold)+":"+os.Getenv("PATH"))
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Errorf("%s\n%v: %s", block, err, out)
				}
				return string(out)
			}
		}
		t.Errorf("the README has no command that begins with %q", beginning)
		return ""
	}
	if out := paste("leasehold once report ") + paste("leasehold once report "); out != "reported\n" &&
		out != "reported\nreported\n" { // it is midnight between the two once a year of tests; all else is mail
		t.Errorf("the nightly job, two times: %q", out)
	}
	if ids := strings.Fields(paste("leasehold id next ")); len(ids) != 3 || ids[0] >= ids[1] || ids[1] >= ids[2] {
		t.Errorf("the IDs are %q", ids)
	}
}

// TestReadmePrograms runs the README's programs as it says: the one in Go in a folder beside the sources, with its line
// for the module, and the one in Python where there is Python. .ci/sdk/typescript runs the one in TypeScript.
func TestReadmePrograms(t *testing.T) {
	t.Parallel()
	p := start(t, "--store", "memory")
	sources, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	run := func(language, file, text, command string) {
		t.Helper()
		dir := t.TempDir()
		text = strings.ReplaceAll(text, "http://127.0.0.1:8080", p.url)
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(command, "../leasehold", sources))
		cmd.Dir = dir
		cmd.Env = append(environment(), "PYTHONPATH="+filepath.Join(sources, "sdk", "python", "src"), "PYTHONDONTWRITEBYTECODE=1")
		out, err := cmd.Output()
		if token, _ := strings.CutPrefix(strings.TrimSpace(string(out)), "deployed "); err != nil || len(token) < 10 {
			if e, ok := errors.AsType[*exec.ExitError](err); ok {
				out = append(out, e.Stderr...)
			}
			t.Errorf("the program in %s: %v\n%s", language, err, out)
		}
	}
	var module string
	for _, block := range blocks(t, "README.md", "sh") {
		if strings.HasPrefix(block, "go mod init ") {
			module = block
		}
	}
	if module == "" {
		t.Error("the README has no line that makes a module")
	}
	if runtime.GOOS != "windows" {
		run("Go", "main.go", blocks(t, "README.md", "go")[0], module+" && go run .")
	}
	if _, err := exec.LookPath("python3"); err == nil && runtime.GOOS != "windows" {
		run("Python", "main.py", blocks(t, "README.md", "python")[0], "python3 main.py")
	}
}

// blocks are a page's code blocks in a language.
func blocks(t *testing.T, page, language string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", page))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)\n```$").FindAllStringSubmatch(string(text), -1) {
		found = append(found, m[1])
	}
	return found
}

// waitsInLine sends an acquire that waits, and returns when it has its place.
func waitsInLine(t *testing.T, lock, body string) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	t.Cleanup(end)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, lock+"/acquire", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	line := func() int {
		waiting, _ := exchange(t, http.MethodGet, lock, "")["waiting"].([]any)
		return len(waiting)
	}
	before := line()
	go func() {
		if a, err := http.DefaultClient.Do(r); err == nil {
			_ = a.Body.Close()
		}
	}()
	for line() == before {
		time.Sleep(10 * time.Millisecond)
	}
}

// exchange sends a request as curl does and returns the JSON object of the response.
func exchange(t *testing.T, method, url, body string) map[string]any {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded") // as curl -d does
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		t.Fatalf("%s: %v in %s", url, err, text)
	}
	return object
}

// only is the object with the named members, as jq's '{a, b}' makes it: a missing member is null.
func only(object map[string]any, names []string) map[string]any {
	picked := map[string]any{}
	for _, name := range names {
		picked[name] = object[name]
	}
	return picked
}

// stable makes the volatile members of an object equal.
func stable(object map[string]any) map[string]any {
	for _, name := range volatile {
		if object[name] != nil {
			object[name] = "…"
		}
	}
	return object
}

// steady makes the volatile members of an object equal, and those and the tokens of the objects in it.
func steady(object map[string]any) map[string]any {
	for _, value := range object {
		list, _ := value.([]any)
		for _, element := range list {
			if inner, ok := element.(map[string]any); ok {
				if token, ok := inner["fencing_token"].(float64); ok && token > 1e15 {
					inner["fencing_token"] = "…"
				}
				steady(inner)
			}
		}
	}
	return stable(object)
}

// TestHouseIsWhole: what people look for is there, links between the pages lead to pages and headings that exist, and
// the index of docs/ leads to each page, of the decisions to their own index.
func TestHouseIsWhole(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"LICENSE", "Makefile", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md",
		"CHANGELOG.md", "SECURITY.md", "SUPPORT.md", "CODE_OF_CONDUCT.md", ".github/CODEOWNERS",
		".github/pull_request_template.md", ".github/ISSUE_TEMPLATE/bug.yml", ".github/ISSUE_TEMPLATE/idea.yml"} {
		if _, err := os.Stat(filepath.Join("..", file)); err != nil {
			t.Error(err)
		}
	}
	code := regexp.MustCompile("(?s)```.*?\n```|`[^`\n]*`") // Go's generic calls look like links
	link := regexp.MustCompile(`\]\(([^)#:]*)(#[^)]+)?\)`)
	pages := map[string]string{}
	for _, path := range tracked(t, "*.md") {
		path = filepath.Join("..", path)
		page, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue // deleted and not committed
		}
		if err != nil {
			t.Fatal(err)
		}
		pages[path] = string(page)
	}
	index, unlisted := filepath.Join("..", "docs", "README.md"), map[string]bool{}
	for path := range pages {
		folder := filepath.Dir(path)
		if strings.HasPrefix(path, filepath.Dir(index)) && path != index &&
			(filepath.Base(folder) != "decisions" || filepath.Base(path) == "README.md") {
			unlisted[path] = true
		}
	}
	for path, page := range pages {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(page, ""), -1) {
			to := path
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(path), m[1])
			}
			if path == index {
				delete(unlisted, to)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s: %v", path, m[1], err)
			} else if on, is := pages[to]; is && m[2] != "" && !headings(on)[m[2]] {
				t.Errorf("%s links to %s%s: no such heading", path, m[1], m[2])
			}
		}
	}
	for page := range unlisted {
		t.Errorf("%s does not lead to %s", index, page)
	}
	if len(pages) < 8 {
		t.Errorf("%d pages", len(pages))
	}
}

var (
	fenced  = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	linked  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	named   = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	unsaid  = regexp.MustCompile(`[^\pL\pN_\- ]`)
)

// headings are the fragments of links that lead into a page, made of its headings as GitHub makes them.
func headings(page string) map[string]bool {
	found := map[string]bool{}
	for _, m := range named.FindAllStringSubmatch(page, -1) {
		found["#"+m[1]] = true
	}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		name := "#" + strings.ReplaceAll(unsaid.ReplaceAllString(
			strings.ToLower(linked.ReplaceAllString(m[1], "$1")), ""), " ", "-")
		again := name
		for n := 1; found[again]; n++ {
			again = fmt.Sprintf("%s-%d", name, n)
		}
		found[again] = true
	}
	return found
}
