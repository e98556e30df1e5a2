//go:build unix

package tests

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/lock"
)

// hold takes a lock as another, for an hour or as a grant of a rate.
func (s *lockServer) hold(t *testing.T, c lock.Acquire) {
	t.Helper()
	c.Tenant, c.Owner = "default", "ann"
	if c.Mode != lock.Rate {
		c.TTLSeconds = 3600
	}
	if o, err := s.locks.Acquire(t.Context(), c); err != nil || o.Code != lock.OK {
		t.Fatalf("%+v, %v", o, err)
	}
}

// TestLockModes: what the flags of "lock run" and "lock acquire" say of how many may hold a lock, and who waits: exit
// codes, what the command finds, and what "lock get" shows.
func TestLockModes(t *testing.T) {
	t.Parallel()
	s := newLockServer(t)
	s.hold(t, lock.Acquire{ID: lock.ID{Key: "pool"}, RequestID: "1", Mode: lock.Permits, Limit: 2})
	s.hold(t, lock.Acquire{ID: lock.ID{Key: "full"}, RequestID: "1", Mode: lock.Permits, Limit: 1})
	s.hold(t, lock.Acquire{ID: lock.ID{Key: "config"}, RequestID: "1", Mode: lock.Shared})
	s.hold(t, lock.Acquire{ID: lock.ID{Key: "mail"}, RequestID: "1", Mode: lock.Rate, Limit: 2, WindowSeconds: 3600})
	s.hold(t, lock.Acquire{ID: lock.ID{Key: "preview"}, RequestID: "1", Replace: true})
	s.hold(t, lock.Acquire{ID: lock.ID{Key: "held"}, RequestID: "1"})
	for _, c := range []struct {
		args           string // as for a shell
		code           int
		stdout, stderr string // "…" means any text
	}{
		{"lock run pool --permits 2 -- sh -c 'echo $LEASEHOLD_PERMIT'", 0, "2\n", ""},
		{"lock run pool --permits 3 -- echo x", 125, "", "leasehold: lock \"pool\": LOCK_MODE_DIFFERS: …"},
		{"lock run pool -- echo x", 125, "", "leasehold: lock \"pool\": LOCK_MODE_DIFFERS: …"},
		{"lock run full --permits 1 -- echo x", 120, "", "leasehold: lock \"full\": LOCK_HELD: …"},
		{"lock run full --permits 1 --wait 50ms -- echo x", 119, "",
			"…leasehold: lock \"full\": not acquired within 50ms: LOCK_HELD: …"},
		{"lock run full --permits 1 --skip -q -- echo x", 0, "", ""},
		{"lock run config --shared -- sh -c 'echo beside ${LEASEHOLD_PERMIT-none}'", 0, "beside none\n", ""},
		{"lock run config -- echo x", 120, "", "leasehold: lock \"config\": LOCK_HELD: …"},
		{"lock run mail --rate 2/h -- sh -c 'echo $LEASEHOLD_KEY ${#LEASEHOLD_FENCING_TOKEN}; exit 7'", 7, "mail 16\n", ""},
		{"lock run mail --rate 2/h -- echo x", 120, "",
			"leasehold: lock \"mail\": LOCK_HELD: the rate of 2 in 1h is used up; the next grant is possible at …Z (tenant default)\n"},
		{"lock run mail --rate 2/h --wait 50ms -- echo x", 119, "",
			"…leasehold: lock \"mail\": not acquired within 50ms: LOCK_HELD: the rate of 2 in 1h is used up; …"},
		{"lock acquire mail --rate 2/h --wait 50ms", 3, "",
			"…leasehold: LOCK_HELD: the rate of 2 in 1h is used up; the next grant is possible at …Z (tenant default)\n"},
		{"lock run mail --rate 2/h --skip -q -- echo x", 0, "", ""},
		{"lock run mail --rate 3/h -- echo x", 125, "", "leasehold: lock \"mail\": LOCK_MODE_DIFFERS: …"},
		{"lock run preview -- echo x", 120, "", "leasehold: lock \"preview\": LOCK_HELD: …"},
		{"lock run preview --replace -- echo latest", 0, "latest\n", ""},
		{"lock run held --replace -- echo x", 120, "", "leasehold: lock \"held\": LOCK_HELD: …"},
		{"lock run free --lock-delay 15s --fair -- echo x", 0, "x\n", ""},
		{"lock acquire pool --permits 2 --owner bob --ttl 1h", 0, "permit 2 of pool of tenant default is held by you until …",
			""},
		{"lock acquire pool --permits 2 --wait 50ms", 3, "", "…leasehold: LOCK_HELD: …"},
		{"lock acquire pool --permits 4", 1, "", "leasehold: LOCK_MODE_DIFFERS: …"},
		{"lock acquire calls --rate 1/h", 0, "calls of tenant default is granted to you, fencing token …", ""},
		{"lock acquire calls --rate 1/h -q", 3, "", "leasehold: LOCK_HELD: …"},
		{
			"lock run both --also too --also third -- sh -c 'echo $LEASEHOLD_KEY $LEASEHOLD_KEY_2 $LEASEHOLD_KEY_3 ${#LEASEHOLD_FENCING_TOKEN} ${#LEASEHOLD_FENCING_TOKEN_2} ${LEASEHOLD_KEY_4-none}'", 0, "both too third 16 16 none\n", ""},
		{
			"lock run both --also too -- $0 lock run third -- sh -c 'echo $LEASEHOLD_KEY ${LEASEHOLD_KEY_2-none} ${LEASEHOLD_FENCING_TOKEN_2-none}'", 0, "third none none\n", ""},
		{"lock run both --also too -- $0 lock run too -- echo x", 120, "", "leasehold: lock \"too\": LOCK_HELD: …"},
		{"lock run both --also held -- echo x", 120, "",
			"leasehold: lock \"both, held\": LOCK_HELD: lock is held (held by ann, until …"},
		{"lock run held --also both --wait 50ms -- echo x", 119, "",
			"…leasehold: lock \"both, held\": not acquired within 50ms: LOCK_HELD: …"},
		{"lock run both --also held --skip -q -- echo x", 0, "", ""},
		{"lock run both --also held --json -- echo x", 120, "", "{\"code\":\"LOCK_HELD\",…\"lock_key\":\"held\",…"},
		{"lock run both --also pool -- echo x", 125, "",
			"leasehold: lock \"both, pool\": LOCK_MODE_DIFFERS: … (pool) (tenant default)\n"},
		{"lock run both --also too -- sh -c 'exit 7'", 7, "", ""},
		{"lock run both --also x --fair -- echo x", 125, "", "leasehold: --also: several locks have one holder each…"},
		{"lock get both", 0, "TENANT   LOCK  STATE     …", ""},
		{"lock get mail", 0, "TENANT   LOCK  STATE   …  rate=2/1h  0        0\n\nused up: the next grant is possible at …\n",
			""},
		{"lock get pool", 0, "TENANT   LOCK  STATE …  permits=2  2        0\n\nHOLDER  MODE     PERMIT  AGE …", ""},
		{"lock list --prefix pool", 0, "TENANT   LOCK  STATE …  permits=2  2        0\n", ""},
	} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "exec $0 "+c.args, binary(t))
		cmd.Env = append(environment(), "LEASEHOLD_SERVER="+s.url)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		_ = cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != c.code || !says(stdout.String(), c.stdout) ||
			!says(stderr.String(), c.stderr) {
			t.Errorf("%s\ngot  %d %q %q\nwant %d %q %q", c.args, code, &stdout, &stderr, c.code, c.stdout, c.stderr)
		}
	}
	t.Run("waits for a rate", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), binary(t), "lock", "acquire", "mail", "--rate", "2/h", "--wait", "30m")
		cmd.Env = append(environment(), "LEASEHOLD_SERVER="+s.url)
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line := bufio.NewScanner(stderr) // it says so once the server has responded
		line.Scan()
		// what is left of it
		if !says(line.Text(),
			"mail of tenant default: the rate of 2 in 1h is used up; the next grant is possible at …Z; waiting for up to …s") {
			t.Errorf("it says %q", line.Text())
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
			t.Errorf("%v", cmd.ProcessState)
		}
	})
	t.Run("one runs, one waits", func(t *testing.T) {
		s.take(t, "deploy")
		first := s.supervise(t, "deploy", "--fair", "--max-waiting", "1", "--wait", "1h", "--", "echo", "mine")
		first.waits(t)
		for inLine := 0; inLine == 0; time.Sleep(10 * time.Millisecond) { // it says that it waits before it has its place
			l, _, err := s.locks.Get(t.Context(), lock.ID{Tenant: "default", Key: "deploy"})
			if err != nil {
				t.Fatal(err)
			}
			inLine = len(l.Waiting)
		}
		second := s.supervise(t, "deploy", "--fair", "--max-waiting", "1", "--wait", "1h", "--", "echo", "mine")
		if said, code := second.ends(t); said != nil || code != 120 ||
			!strings.Contains(second.errors(t), "LOCK_QUEUE_FULL") {
			t.Errorf("the second: %q %d %s", said, code, second.errors(t))
		}
		s.free(t, "deploy")
		if said, code := first.ends(t); len(said) != 1 || code != 0 {
			t.Errorf("the first: %q %d %s", said, code, first.errors(t))
		}
	})
	t.Run("one of several is lost", func(t *testing.T) {
		p := s.supervise(t, "left", "--also", "right", "--ttl", "15s", "--grace", "1s", "--", "sh", "-c", obedient)
		p.says(t, "ready")
		if !s.held(t, "left") || !s.held(t, "right") {
			t.Error("not both are held")
		}
		s.free(t, "right")
		if _, code := p.ends(t); code != 121 || !strings.Contains(p.errors(t), "LEASE_RELEASED") ||
			!strings.Contains(p.errors(t), "(right)") {
			t.Errorf("%d %s", code, p.errors(t))
		}
		if s.held(t, "left") {
			t.Error("the other one is held still")
		}
	})
	t.Run("replaced", func(t *testing.T) {
		first := s.supervise(t, "site", "--replace", "--ttl", "12s", "--", "sh", "-c", obedient)
		first.says(t, "ready")
		second := s.supervise(t, "site", "--replace", "--", "echo", "mine")
		if said, code := second.ends(t); len(said) != 1 || code != 0 {
			t.Errorf("the second: %q %d %s", said, code, second.errors(t))
		}
		if _, code := first.ends(t); code != 121 {
			t.Errorf("the first: %d %s", code, first.errors(t))
		}
	})
}

// TestModesTutorial runs the commands of the tutorial on modes, and looks at what they print. Which of two builds waits
// is not certain on a slow machine.
func TestModesTutorial(t *testing.T) {
	t.Parallel()
	leasehold := binary(t)
	p := start(t, "--store", "memory")
	commands := strings.Join(blocks(t, "docs/tutorials/three-at-a-time.md", "sh")[1:], "\n") // the first one is the server
	cmd := exec.CommandContext(t.Context(), "sh", "-c", commands)
	cmd.Env = append(environment(), "LEASEHOLD_SERVER="+p.url, "PATH="+filepath.Dir(leasehold)+
		string(os.PathListSeparator)+os.Getenv("PATH"))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Errorf("%v\n%s", err, &stderr)
	}
	for want, times := range map[string]int{
		`my turn`: 1, `build (again|a third time)`: -1, `the latest`: 1, `a reader beside a reader`: 1, `connection [12]`: 3,
		`call [123]`: 3, `my disk`: 1,
		`.*never.*`: 0, `TENANT .*`: 1, `BEFORE .*`: 1, `.*\breleased`: 2,
	} {
		got := len(regexp.MustCompile(`(?m)^`+want+`$`).FindAllString(stdout.String(), -1))
		if got != times && (times >= 0 || got == 0) {
			t.Errorf("%q is printed %d times, want %d\n%s\n%s", want, got, times, &stdout, &stderr)
		}
	}
	for want, times := range map[string]int{`LOCK_HELD`: 4, `skipped: lock "report"`: 1,
		`the lock is lost: LEASE_LOST`: 1} {
		if got := strings.Count(stderr.String(), want); got < times {
			t.Errorf("%q is said %d times, want %d\n%s", want, got, times, &stderr)
		}
	}
	if strings.Contains(stderr.String(), "unknown") || strings.Contains(stderr.String(), "must be") {
		t.Errorf("%s", &stderr)
	}
}
