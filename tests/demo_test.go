package tests

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// lastOfDemo is the last line of the scenes for machines, which says that all checks passed.
const lastOfDemo = `{"held":11,"checks":11,"ok":true}`

// TestDemo runs the demonstration as a script does: it exits by itself, and all its checks pass.
func TestDemo(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary(t), "demo", "--json")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%v, %s\n%s", err, &stderr, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if last := lines[len(lines)-1]; last != lastOfDemo {
		t.Errorf("the last line is %s, want %s\n%s", last, lastOfDemo, out)
	}
}

// TestDemoScenesOnThePage: the page plays the same scenes, once at a time. One that is played when the demonstration is
// interrupted ends with it, and leaves nothing behind.
func TestDemoScenesOnThePage(t *testing.T) {
	t.Parallel()
	temporary := t.TempDir()
	cmd := exec.CommandContext(t.Context(), binary(t), "demo", "--no-browser")
	cmd.Env, cmd.Stderr = append(os.Environ(), "TMPDIR="+temporary, "TMP="+temporary), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	printed := bufio.NewReader(out)
	first, err := printed.ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(first), "Open ")
	if err != nil || !ok {
		t.Fatalf("it printed %q, %v", first, err)
	}
	check := func() *http.Response {
		t.Helper()
		r, err := http.Post(url+"check", "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Body.Close() })
		return r
	}
	r := check() //nolint:bodyclose // the end of the test closes it
	lines := bufio.NewReader(r.Body)
	begun, err := lines.ReadString('\n')
	var step struct{ Scene, Who, Did string }
	if bad := json.Unmarshal([]byte(begun), &step); err != nil || bad != nil ||
		step.Scene != "1. Two workers want one lock" || step.Who == "" || step.Did == "" {
		t.Errorf("the first line is %q, %v, %v", begun, err, bad)
	}
	if second := check(); second.StatusCode != http.StatusServiceUnavailable { //nolint:bodyclose // see above
		t.Errorf("a second one beside it: %s", second.Status)
	}
	rest, err := io.ReadAll(lines)
	if err != nil || !strings.HasSuffix(string(rest), "\n"+lastOfDemo+"\n") {
		t.Errorf("%v\n%s", err, rest)
	}

	r = check() //nolint:bodyclose // see above
	if line, err := bufio.NewReader(r.Body).ReadString('\n'); err != nil {
		t.Errorf("%q, %v", line, err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, printed)
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(temporary, "leasehold-demo-*")); err != nil || len(left) > 0 {
		t.Errorf("%q, %v", left, err)
	}
}
