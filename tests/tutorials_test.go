package tests

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// reader does what a tutorial says: it pastes each command, starts servers in terminals of their own, pastes what these
// say is to be exported, and compares what is printed with what the page shows.
type reader struct {
	t       *testing.T
	dir     string            // in which all terminals are
	env     []string          // of all terminals
	ports   map[string]string // that the page names, and what they are here
	exports string            // a file with what was exported so far
	printed string            // by the last command
}

// goesOn is a command that has a terminal of its own; portOf is where the page calls it.
var (
	goesOn = regexp.MustCompile(`^(leasehold serve|leasehold emulate|python3 target\.py|go run \./examples/payments$)`)
	portOf = map[string]string{
		"leasehold serve": "8080", "python3 target.py": "9000", "go run ./examples/payments": "8090",
	}
	anExample = regexp.MustCompile(`go run \./(examples/\w+)`)
)

// TestTutorials pastes tutorials. TestThreeMachines and TestModesTutorial paste the other ones, and
// TestPaymentsWalk runs what the one on payments shows of the cases.
func TestTutorials(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the commands are those of a Unix shell")
	}
	for page, c := range map[string]struct {
		programs string // that the reader has, beside leasehold
		shown    int    // outputs that the page shows
	}{
		"http": {"curl jq", 7}, "queue-worker": {"curl python3", 2}, "payment": {"curl jq", 2}, "rooms": {"curl jq", 7},
		"ids": {"", 3},
	} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			for program := range strings.FieldsSeq(c.programs) {
				if _, err := exec.LookPath(program); err != nil {
					t.Skipf("there is no %s", program) // the gate has it
				}
			}
			r := newReader(t)
			if shown := r.reads("docs/tutorials/" + page + ".md"); shown != c.shown {
				t.Errorf("the page shows the output of %d commands, want %d", shown, c.shown)
			}
		})
	}
}

func newReader(t *testing.T) *reader {
	t.Helper()
	r := &reader{t: t, dir: t.TempDir(), ports: map[string]string{}, exports: filepath.Join(t.TempDir(), "exports")}
	for _, port := range portOf {
		r.ports[port] = strconv.Itoa(freePort(t))
	}
	r.exported("")
	r.env = append(environment(), "HOME="+r.dir, "XDG_DATA_HOME="+r.dir,
		"LEASEHOLD_SERVER=http://127.0.0.1:"+r.ports["8080"],
		"PATH="+filepath.Dir(binary(t))+string(os.PathListSeparator)+os.Getenv("PATH"))
	return r
}

// reads pastes a page's commands in their order, and returns how many outputs it shows.
func (r *reader) reads(page string) (shown int) {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join("..", page))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?ms)^```(sh|text|go)\n(.*?)\n```$").FindAllStringSubmatch(string(text), -1) {
		switch {
		case m[1] == "text":
			shown++
			if got, want := still(r.printed), still(m[2]); got != want {
				r.t.Errorf("%s: printed\n%s\nshown\n%s", page, got, want)
			}
		case m[1] == "go":
			if strings.HasPrefix(m[2], "package main\n") {
				r.runs(m[2])
			}
		case goesOn.MatchString(m[2]):
			r.starts(m[2])
		default:
			r.pastes(m[2])
		}
	}
	return shown
}

// here is a command with the ports of this run, and with examples that are built.
func (r *reader) here(command string) string {
	var ports []string // all replaced at once: one of ours may have one of theirs in it, such as 39000
	for theirs, ours := range r.ports {
		ports = append(ports, theirs, ours)
	}
	command = strings.NewReplacer(ports...).Replace(command)
	return anExample.ReplaceAllStringFunc(command, func(run string) string {
		return build(r.t, anExample.FindStringSubmatch(run)[1])
	})
}

// exported adds lines to what all later commands find exported.
func (r *reader) exported(lines string) {
	r.t.Helper()
	f, err := os.OpenFile(r.exports, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err == nil {
		_, err = f.WriteString(lines)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// pastes runs a command in the reader's terminal.
func (r *reader) pastes(command string) {
	r.t.Helper()
	c := exec.CommandContext(r.t.Context(), "sh", "-ec",
		". "+r.exports+"\n"+r.here(command)+"\nexport -p > "+r.exports)
	c.Dir, c.Env = r.dir, r.env
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		r.t.Fatalf("%s\n%v\n%s%s", command, err, &stdout, &stderr)
	}
	r.printed = stdout.String()
}

// runs compiles a program and runs it.
func (r *reader) runs(text string) {
	r.t.Helper()
	file := filepath.Join(r.t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(r.here(text)), 0o600); err != nil {
		r.t.Fatal(err)
	}
	c := exec.CommandContext(r.t.Context(), "go", "run", file)
	c.Dir, c.Env = "..", environment()
	out, err := c.CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s\n%v\n%s", text, err, out)
	}
	r.printed = string(out)
}

// starts runs a command in a terminal of its own, until the end of the test, and waits until it can be called.
func (r *reader) starts(command string) {
	r.t.Helper()
	name := goesOn.FindString(command)
	line, port := r.here(command), r.ports[portOf[name]]
	if port == "" {
		port = strconv.Itoa(freePort(r.t)) // it says where it listens
	}
	if name != "python3 target.py" {
		line += " --listen 127.0.0.1:" + port
	}
	ours := strings.HasPrefix(name, "leasehold ")
	terminal, err := os.Create(filepath.Join(r.t.TempDir(), "terminal"))
	if err != nil {
		r.t.Fatal(err)
	}
	c := exec.Command("sh", "-ec", ". "+r.exports+"\nexec "+line)
	c.Dir, c.Env, c.Stdout, c.Stderr = r.dir, r.env, terminal, terminal
	if err := c.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait(); _ = terminal.Close() })
	for deadline := time.Now().Add(failAfter); ; time.Sleep(20 * time.Millisecond) {
		said, err := os.ReadFile(terminal.Name())
		if err != nil {
			r.t.Fatal(err)
		}
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil && (!ours || bytes.Contains(said, []byte("Stop with"))) {
			_ = conn.Close()
			for _, m := range regexp.MustCompile(`(?m)^ *(export .*)$`).FindAllSubmatch(said, -1) {
				r.exported(string(m[1]) + "\n")
			}
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s cannot be called: %v\n%s", command, err, said)
		}
	}
}

// still is what was printed without what differs from run to run: times, tokens, IDs, and how wide columns are.
func still(printed string) string {
	for _, c := range [][2]string{
		{`\d{4}-\d\d-\d\dT[\d:.]+Z`, "TIME"}, {`(_ms": ?)\d+`, "${1}NUMBER"}, {`\d{6,}`, "NUMBER"},
		{`\b[A-Z2-7]{26}\b`, "ID"}, {`\r`, ""}, {` +`, " "}, {`(?m) $`, ""},
	} {
		printed = regexp.MustCompile(c[0]).ReplaceAllString(printed, c[1])
	}
	return strings.TrimSpace(printed)
}
