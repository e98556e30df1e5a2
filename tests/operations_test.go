package tests

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/functions/settings"
)

// TestRestoreDrill runs the drill of docs/guides/operations.md: a backup, two holders after it, a restore of the old
// copy, and tokens that are raised. It prints what the page shows.
func TestRestoreDrill(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("a Unix shell script")
	}
	leasehold, dir := binary(t), t.TempDir()
	script := blocks(t, "docs/guides/operations.md", "sh")[0]
	const address = "127.0.0.1:8080"
	if strings.Count(script, address) < 2 {
		t.Fatalf("the drill has another address than %s", address)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(script, address,
		fmt.Sprintf("127.0.0.1:%d", freePort(t))))
	cmd.Dir = dir
	cmd.Env = append(environment(), patient,
		"PATH="+filepath.Dir(leasehold)+string(os.PathListSeparator)+os.Getenv("PATH"))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "server.log"))
		t.Fatalf("%v\n%s\n%s\n%s", err, &stdout, &stderr, log)
	}
	page := blocks(t, "docs/guides/operations.md", "text")[0]
	if got, want := sameDay(strings.ReplaceAll(stdout.String(), dir+string(os.PathSeparator), "")),
		sameDay(page); got != want {
		t.Errorf("the drill printed\n%s\nthe page shows\n%s", got, want)
	}
	for code, times := range map[string]int{"LEASE_LOST": 2, "STALE_TOKEN": 1} {
		if got := strings.Count(stderr.String(), code); got != times {
			t.Errorf("%s is said %d times, want %d\n%s", code, got, times, &stderr)
		}
	}
}

// sameDay replaces what differs from run to run: tokens, times, ages.
func sameDay(output string) string {
	for _, r := range []struct{ pattern, with string }{
		{`\b[0-9]{16}\b`, "TOKEN"}, {`\b[0-9-]{10}T[0-9:.]{12}Z`, "TIME"}, {`\b[0-9]+s\b +`, "AGE "}, {`(AGE) +`, "$1 "},
		{` +(METADATA|$)`, " $1"}, {`(UNTIL) +`, "$1 "},
	} {
		output = regexp.MustCompile(`(?m)`+r.pattern).ReplaceAllString(output, r.with)
	}
	return strings.TrimSpace(output)
}

// TestOneUnit: a server has one unit of systemd, to which other pages lead.
func TestOneUnit(t *testing.T) {
	t.Parallel()
	var of []string
	err := filepath.WalkDir("../docs", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		for range strings.Count(string(text), "ExecStart=/usr/local/bin/leasehold serve") {
			of = append(of, path)
		}
		return err
	})
	if err != nil || !slices.Equal(of, []string{"../docs/guides/operations.md"}) {
		t.Errorf("units are in %q: %v", of, err)
	}
}

// TestUnit: systemd finds nothing wrong with the units of the pages, and that of docs/guides/operations.md gives the server
// no more rights than it needs, by systemd's judgement: below 2 of 10, where 10 is all.
func TestUnit(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze")
	}
	folder := t.TempDir()
	job := blocks(t, "docs/guides/jobs.md", "ini")
	units := map[string]string{"leasehold.service": blocks(t, "docs/guides/operations.md", "ini")[0],
		"nightly.timer": job[0], "nightly.service": job[1]}
	var all []string
	for name, text := range units {
		all = append(all, filepath.Join(folder, name))
		text = strings.ReplaceAll(text, "/usr/local/bin/leasehold", "/bin/true") // it must be there
		if err := os.WriteFile(all[len(all)-1], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	verified, err := exec.CommandContext(t.Context(), analyze, append([]string{"verify"}, all...)...).CombinedOutput()
	for line := range strings.Lines(string(verified)) { // this machine's own units have lines, too
		for name := range units {
			if strings.Contains(line, name) {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
	unit := filepath.Join(folder, "leasehold.service")
	judge := exec.CommandContext(t.Context(), analyze, "security", "--offline=true", "--threshold=20", "--no-pager", unit)
	out, err := judge.CombinedOutput()
	if strings.Contains(string(out), "unrecognized option") {
		t.Skip("this systemd-analyze judges no files")
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestSettingsOfOperations: a server accepts the variables that docs/guides/operations.md has for a machine.
func TestSettingsOfOperations(t *testing.T) {
	t.Parallel()
	var environ []string
	for _, block := range blocks(t, "docs/guides/operations.md", "sh") {
		if strings.HasPrefix(block, "LEASEHOLD_DATA=") {
			environ = strings.Fields(block)
		}
	}
	c, err := settings.Load(settings.Serve, environ, nil)
	if err != nil || c.AuthIssuer == "" || c.TenantRate == 0 {
		t.Errorf("%q: %+v, %v", environ, c, err)
	}
}
