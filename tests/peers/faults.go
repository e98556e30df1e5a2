package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// program is a lock that meets the faults, as programs use it: with the renewal that it has, and its own retries.
type program struct {
	name    string
	module  string // whose version the page says; empty for what is written here
	server  string
	promise string // in its own words, and where they are
	tells   string // what a resource can compare, and whether the client says that a lock is lost
	open    func(ctx context.Context, addr string, callers int, ttl time.Duration) (locker, error)
	says    string // how its server says that it has too much to do
}

const (
	tooManyHTTP  = "HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"
	tooManyRedis = "-LOADING Redis is loading the dataset in memory\r\n"
)

const tooManyDynamo = "HTTP/1.1 400 Bad Request\r\nContent-Type: application/x-amz-json-1.0\r\n" +
	"Connection: close\r\nContent-Length: 97\r\n\r\n" +
	`{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":""}`

const leaseholdPromise = "“At most one active lease per (tenant, key)” and “The fencing tokens of a key strictly " +
	"increase” (docs/concepts.md)"

var programs = []program{
	{"Leasehold, HTTP on SQLite", "", "http-sqlite", leaseholdPromise, "token; says that a lock is lost", leaseholdHTTP,
		tooManyHTTP},
	{"Leasehold on Redis", "", "redis", leaseholdPromise, "token; says that a lock is lost", leaseholdRedis, tooManyRedis},
	{"Leasehold on DynamoDB", "", "dynamodb", leaseholdPromise, "token; says that a lock is lost", leaseholdDynamoDB,
		tooManyDynamo},
	{"etcd concurrency", "go.etcd.io/etcd/client/v3", "etcd",
		"“implements concurrency operations on top of etcd such as distributed locks” (package documentation)",
		"revision; says that a session has ended", openEtcd, ""},
	{"bsm/redislock", "github.com/bsm/redislock", "redis",
		"“Simplified distributed locking implementation using Redis” (README)", "nothing", openRedislock, tooManyRedis},
	{"redsync", "github.com/go-redsync/redsync/v4", "redis",
		"“no one else can obtain the same lock (the same mutex name) until we unlock it” (README)",
		"nothing; has the time until which a lock is valid", openRedsync, tooManyRedis},
	{"dynamolock", "cirello.io/dynamolock/v2", "dynamodb",
		"“make sure that two boxes don't work on the same campaign/customer at the same time” (README)",
		"nothing; says that a lock is expired", dynamolockBeating, tooManyDynamo},
	{"textbook on DynamoDB", "", "dynamodb", "none: it is written here, in 40 lines, as many write it for themselves",
		"nothing", openTextbook, tooManyDynamo},
}

// Times of the faults.
const (
	faultLease = 2 * time.Second // what etcd can do
	long       = 3 * faultLease  // for how long a lock is waited for
	soon       = faultLease / 4  // a lock that can be had by then was free
	minute     = time.Minute     // by which a clock is off
)

// How the cells of the table begin. The tests and the legend have the same words.
const (
	kept       = "kept"
	errorSaid  = "error said"
	unsaid     = "error unsaid"
	stuck      = "stuck"
	twoHolders = "two holders"
	lostUpdate = "lost update"
	notPut     = "–"
)

// stage is what a fault is played on: one program, and a key that nothing else uses.
type stage struct {
	ctx    context.Context //nolint:containedctx // of one cell
	p      program
	on     *server
	binary string
	key    string
	ttl    time.Duration
	actors []*actor
}

// actor is a process of a client, with a proxy between it and the server.
type actor struct {
	*stage

	proxy *proxy
	cmd   *exec.Cmd
	in    io.WriteCloser
	mu    sync.Mutex
	sent  int
	open  map[int]chan string
}

// errRefused is that a client would not begin.
var errRefused = errors.New("the client would not begin")

// actor starts a client, whose wall clock is off by so much.
func (s *stage) actor(clock time.Duration) (*actor, error) {
	a := &actor{stage: s, open: map[int]chan string{0: make(chan string, 1)}}
	var err error
	if a.proxy, err = newProxy(s.ctx, s.on.addr); err != nil {
		return nil, err
	}
	s.actors = append(s.actors, a)
	a.cmd = exec.CommandContext(s.ctx, s.binary)
	a.cmd.Env = append(os.Environ(), asFaultClient+"="+s.p.name, faultAddr+"="+a.proxy.listener.Addr().String(),
		faultTTL+"="+s.ttl.String(), clockEnv+"="+strconv.Itoa(int(clock/time.Second)))
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := a.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			number, text, _ := strings.Cut(lines.Text(), " ")
			n, _ := strconv.Atoi(number)
			a.mu.Lock()
			if c := a.open[n]; c != nil {
				c <- text
			}
			a.mu.Unlock()
		}
	}()
	if text := a.answer(a.open[0]); !strings.HasPrefix(text, "ok") {
		return a, fmt.Errorf("%w: %s", errRefused, text)
	}
	return a, nil
}

// ask sends a command.
func (a *actor) ask(command string, args ...any) chan string {
	c := make(chan string, 1)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent++
	a.open[a.sent] = c
	fmt.Fprintln(a.in, append([]any{a.sent, command}, args...)...)
	return c
}

func (a *actor) answer(c chan string) string {
	select {
	case text := <-c:
		return text
	case <-time.After(time.Minute):
		return "error: no response in a minute"
	case <-a.ctx.Done():
		return "error: " + a.ctx.Err().Error()
	}
}

func (a *actor) do(command string, args ...any) string { return a.answer(a.ask(command, args...)) }

// try asks for the lock once.
func (a *actor) try() string { return a.do("try", a.key, 2*faultLease) }

// hold acquires a lock that is free.
func (a *actor) hold() error {
	if said := a.try(); !ok(said) || !a.mine() {
		return fmt.Errorf("a free lock is not acquired: %s", said)
	}
	return nil
}

// free says how long it takes until this client has the lock.
func (a *actor) free() (time.Duration, bool) {
	began := time.Now()
	said := a.do("wait", a.key, long)
	return time.Since(began), strings.HasPrefix(said, "ok")
}

// mine says whether the client thinks that it has the lock, and its token.
func mine(said string) (yes bool, token int64) {
	rest, yes := strings.CutPrefix(said, "yes ")
	token, _ = strconv.ParseInt(rest, 10, 64)
	return yes, token
}

func (a *actor) mine() bool {
	yes, _ := mine(a.do("mine"))
	return yes
}

// arm has the next request of this client meet a fault. met returns when it did, send has sent what is held back.
func (a *actor) arm(k kind) (met, send func()) {
	if a.p.server == "etcd" {
		a.do("fault", k)
		return func() { a.do("met") }, func() { a.do("send") }
	}
	f := newFault(k, a.key, a.p.says)
	a.proxy.arm(f)
	wait := func(c chan struct{}) {
		select {
		case <-c:
		case <-time.After(time.Minute):
		}
	}
	return func() { wait(f.met) }, func() {
		close(f.goOn)
		wait(f.sent)
	}
}

func (s *stage) two() (a, b *actor, err error) {
	if a, err = s.actor(0); err != nil {
		return nil, nil, err
	}
	b, err = s.actor(0)
	return a, b, err
}

// held is two clients, of which the first has the lock.
func (s *stage) held() (a, b *actor, err error) {
	if a, b, err = s.two(); err == nil {
		err = a.hold()
	}
	return a, b, err
}

func (s *stage) end() {
	for _, a := range s.actors {
		if a.cmd.Process != nil {
			_ = a.cmd.Process.Kill()
			_ = a.cmd.Wait() // it was killed
		}
		a.proxy.close()
	}
}

func ok(said string) bool { return strings.HasPrefix(said, "ok") }

// waited says for how long no client had the lock, since a time; it is empty if this client has it at once.
func (a *actor) waited(since time.Time) string {
	if ok(a.try()) {
		return ""
	}
	if _, had := a.free(); !had {
		return fmt.Sprintf("%s for more than %v", stuck, long)
	}
	return fmt.Sprintf("%s for %.1f s", stuck, time.Since(since).Seconds())
}

// beside is what came of it when a thinks that it has the lock: b must be refused.
func beside(a, b *actor) string {
	if ok(b.try()) && a.mine() {
		return twoHolders
	}
	return kept
}

// acquire has the request of an acquire meet a fault.
func acquire(k kind) func(*stage) (string, error) {
	return func(s *stage) (string, error) {
		a, b, err := s.two()
		if err != nil {
			return "", err
		}
		if k == copied && s.p.server == "etcd" {
			return notPut, nil // nothing on the way makes a copy of a call of gRPC
		}
		_, send := a.arm(k)
		began := time.Now()
		most := 2 * faultLease
		if k == late {
			most = soon * 2
		}
		said := a.do("try", a.key, most)
		switch {
		case k == copied:
			if ok(said) {
				a.do("release", "-", faultLease)
			}
			began = time.Now()
			send()
			if text := b.waited(began); text != "" {
				return text, nil
			}
			return kept, nil
		case k == late && !ok(said): // it gave up
			began = time.Now()
			send()
			if text := b.waited(began); text != "" {
				return text, nil
			}
			return errorSaid, nil
		case ok(said):
			return beside(a, b), nil
		}
		if ok(a.try()) && said != "held" { // what a program does after an error
			return errorSaid, nil
		} else if said == "held" && a.mine() { // by then the lease was over that it had got
			return fmt.Sprintf("%s for %.1f s", stuck, time.Since(began).Seconds()), nil
		}
		if text := b.waited(began); text != "" {
			return text, nil
		}
		return errorSaid, nil
	}
}

// acquireAnswered has the response of an acquire arrive when the lease is over and another has the lock.
func acquireAnswered(s *stage) (string, error) {
	a, b, err := s.two()
	if err != nil {
		return "", err
	}
	met, send := a.arm(answerLate)
	began := time.Now()
	first := a.ask("try", a.key, long)
	met()
	_, had := b.free()
	send()
	said := a.answer(first)
	switch {
	case had && ok(said) && a.mine():
		return twoHolders, nil
	case had:
		return errorSaid, nil
	case ok(said):
		return kept + ", renewed meanwhile", nil
	}
	return b.waited(began), nil
}

// releaseMeets has the request of a release meet a fault.
func releaseMeets(k kind) func(*stage) (string, error) {
	return func(s *stage) (string, error) {
		a, b, err := s.held()
		if err != nil {
			return "", err
		}
		a.arm(k)
		began := time.Now()
		said := a.do("release", "-", 2*faultLease)
		what := kept
		if !ok(said) {
			what = errorSaid
			a.do("release", "-", 2*faultLease) // what a program does after an error
		}
		if text := b.waited(began); text != "" {
			if ok(said) {
				text = unsaid + ", " + text
			}
			return text, nil
		}
		return what, nil
	}
}

// releaseLate has a release arrive when the same client has the lock again.
func releaseLate(s *stage) (string, error) {
	a, b, err := s.held()
	if err != nil {
		return "", err
	}
	_, send := a.arm(late)
	a.do("release", "-", soon)
	if said := a.do("wait", a.key, long); !ok(said) {
		return stuck + ": " + said, nil
	}
	send()
	return beside(a, b), nil
}

// renewMeets has the response of a renewal lost, and looks when the lease that was there before is over.
func renewMeets(s *stage) (string, error) {
	a, b, err := s.two()
	if err != nil {
		return "", err
	}
	if s.p.server == "etcd" || s.p.name == "textbook on DynamoDB" {
		return notPut, nil
	}
	if err := a.hold(); err != nil {
		return "", err
	}
	began := time.Now()
	met, _ := a.arm(answerLost)
	said := a.do("renew")
	if strings.Contains(said, errItself.Error()) {
		met()
	}
	renewed := time.Now()
	time.Sleep(faultLease + faultLease/8 - time.Since(began)) // over, but for the renewal
	thinks, had := a.mine(), ok(b.try())
	switch {
	case time.Since(renewed) > faultLease && !strings.Contains(said, errItself.Error()):
		return "", errors.New("the machine is too slow for this")
	case had && thinks && a.mine():
		return twoHolders, nil
	case had || !ok(said) && !strings.Contains(said, errItself.Error()):
		return errorSaid, nil
	}
	return kept, nil
}

// frozen stops a holder for longer than its lease; it goes on with the question whether the lock is its own, or with
// the write after that.
func frozen(asked bool) func(*stage) (string, error) {
	return func(s *stage) (string, error) {
		a, b, err := s.held()
		if err != nil {
			return "", err
		}
		said := ""
		if asked {
			said = a.do("mine")
		}
		if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			return "", err
		}
		if _, had := b.free(); !had {
			return stuck, nil
		}
		_, second := mine(b.do("mine")) // b writes
		var later chan string
		if !asked {
			later = a.ask("mine")
		}
		if err := a.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			return "", err
		}
		if !asked {
			said = a.answer(later)
		}
		switch writes, first := mine(said); {
		case !writes:
			return kept + ": it knows", nil
		case first > 0 && first < second:
			return kept + " by the token", nil
		default:
			return lostUpdate, nil
		}
	}
}

// killed ends a holder.
func killed(s *stage) (string, error) {
	a, b, err := s.held()
	if err != nil {
		return "", err
	}
	if err := a.cmd.Process.Kill(); err != nil {
		return "", err
	}
	took, had := b.free()
	if !had {
		return fmt.Sprintf("%s for more than %v", stuck, long), nil
	}
	return fmt.Sprintf("%s, free after %.1f s", kept, took.Seconds()), nil
}

// clocks has the holder and another client with clocks that are off.
func clocks(holder, other time.Duration, kill bool) func(*stage) (string, error) {
	return func(s *stage) (string, error) {
		a, err := s.actor(holder)
		if errors.Is(err, errRefused) {
			return errorSaid, nil
		} else if err != nil {
			return "", err
		}
		b, err := s.actor(other)
		if errors.Is(err, errRefused) {
			return errorSaid, nil
		} else if err != nil {
			return "", err
		}
		if !ok(a.try()) {
			return errorSaid, nil
		}
		if kill {
			_ = a.cmd.Process.Kill()
			if took, had := b.free(); had {
				return fmt.Sprintf("%s, free after %.1f s", kept, took.Seconds()), nil
			}
			return fmt.Sprintf("%s for more than %v", stuck, long), nil
		}
		switch said := b.try(); {
		case ok(said) && a.mine():
			return twoHolders, nil
		case strings.HasPrefix(said, "error"):
			return errorSaid, nil
		}
		return kept, nil
	}
}

// restarted kills the server while a client has the lock, and starts it again on its data.
func restarted(s *stage) (string, error) {
	if s.p.server == "dynamodb" {
		return notPut, nil // the emulator has its data in memory, and the service is not restarted
	}
	s.ttl = 5 * faultLease
	a, b, err := s.held()
	if err != nil {
		return "", err
	}
	s.on.kill()
	if err := s.on.run(s.ctx); err != nil {
		return "", err
	}
	for range 50 {
		if said := b.try(); !strings.HasPrefix(said, "error") {
			if ok(said) && a.mine() {
				return twoHolders, nil
			}
			return kept, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return errorSaid, nil
}

// faultRows are the rows of the table.
var faultRows = []struct {
	what string
	run  func(*stage) (string, error)
}{
	{"acquire: the request is lost", acquire(requestLost)},
	{"acquire: carried out, the response is lost", acquire(answerLost)},
	{"acquire: the server has too much to do, once", acquire(throttled)},
	{"acquire: given up; the request arrives then", acquire(late)},
	{"acquire: the response arrives after the ttl, when another has the lock", acquireAnswered},
	{"acquire: a copy of the request arrives after the release", acquire(copied)},
	{"renew: carried out, the response is lost", renewMeets},
	{"release: the request is lost", releaseMeets(requestLost)},
	{"release: carried out, the response is lost", releaseMeets(answerLost)},
	{"release: the server has too much to do, once", releaseMeets(throttled)},
	{"release: arrives when the same client has the lock again", releaseLate},
	{"holder frozen beyond its ttl; goes on with the question whether the lock is its own", frozen(false)},
	{"the same; it had asked before, and goes on with the write", frozen(true)},
	{"holder killed", killed},
	{"clock of another client a minute ahead", clocks(0, minute, false)},
	{"clock of the holder a minute behind", clocks(-minute, 0, false)},
	{"clock of the holder a minute ahead; it is killed", clocks(minute, 0, true)},
	{"server killed and started again", restarted},
}

// clockEnv is by how many seconds the wall clock of a client is off.
const clockEnv = "PEERS_CLOCK"

// clockProgram builds this program with a package time whose wall clock can be off. Its monotonic clock is right, as it
// is in a process on a machine whose clock was set.
func clockProgram(ctx context.Context, dir string) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	const now = "sec, nsec, mono := runtimeNow()\n"
	before, after, found := strings.Cut(string(text), now)
	if !found {
		return "", errors.New("package time reads the clock in another way than it did")
	}
	files := map[string]string{
		source: before + now + "\tsec += clockOff\n" + after,
		filepath.Join(filepath.Dir(source), "clock_off.go"): `package time

import "syscall"

var clockOff = func() int64 {
	text, _ := syscall.Getenv("` + clockEnv + `")
	n, _ := atoi(text)
	return int64(n)
}()
`,
	}
	replaced := map[string]string{}
	for name, text := range files {
		replaced[name] = filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(replaced[name], []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	list, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "peers")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, "go", "build", "-overlay", list, "-o", binary, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return binary, nil
}

// faultTable puts all faults to all programs: one after the other to each, and to the programs side by side. Results
// are by row and program; those of a program whose server is missing are empty.
func (p plan) faultTable(ctx context.Context, dir, binary string) ([][]string, error) {
	on, err := startServers(ctx, dir, nil)
	if on != nil {
		defer on.stop()
	}
	if err != nil {
		return nil, err
	}
	results := make([][]string, len(faultRows))
	for i := range results {
		results[i] = make([]string, len(programs))
	}
	failed := make([]error, len(programs))
	var all sync.WaitGroup
	for j, one := range programs {
		if p.only != nil && !p.only.MatchString(one.name) {
			continue
		}
		all.Go(func() {
			if err := on.start(ctx, one.name, one.server); err != nil {
				p.say("%s: skipped: %v", one.name, err)
				return
			}
			for i, row := range faultRows {
				s := &stage{ctx: ctx, p: one, on: on.all[one.name], binary: binary, key: fmt.Sprint("key-of-row-", i, "."),
					ttl: faultLease}
				cell, err := row.run(s)
				s.end()
				if err != nil {
					failed[j] = fmt.Errorf("%s: %s: %w", one.name, row.what, err)
					return
				}
				p.say("%s: %s: %s", row.what, one.name, cell)
				results[i][j] = cell
			}
		})
	}
	all.Wait()
	return results, errors.Join(failed...)
}

// faultPage is the table of the page, with who took part.
func faultPage(results [][]string) string {
	version := map[string]string{}
	if info, found := debug.ReadBuildInfo(); found {
		for _, m := range info.Deps {
			version[m.Path] = " " + m.Version
		}
	}
	var b strings.Builder
	b.WriteString("| program | its promise, in its own words | what a resource can compare; what the client says |\n" +
		"| --- | --- | --- |\n")
	names := make([]string, len(programs))
	for j, p := range programs {
		names[j] = p.name + version[p.module]
		fmt.Fprintf(&b, "| %s | %s | %s |\n", names[j], p.promise, p.tells)
	}
	fmt.Fprintf(&b, "\nA ttl of %v:\n\n| What happens | %s |\n|%s\n", faultLease, strings.Join(names, " | "),
		strings.Repeat(" --- |", 1+len(names)))
	for i, row := range faultRows {
		fmt.Fprintf(&b, "| %s | %s |\n", row.what, strings.Join(results[i], " | "))
	}
	return b.String()
}
