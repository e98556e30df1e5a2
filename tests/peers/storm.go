package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// quiet drops what net/http says of handlers that panic: the storm has them on purpose.
var quiet = log.New(io.Discard, "", 0)

// asStormShop is the variable by which a process learns that it is a shop of the storm.
const asStormShop = "PEERS_STORM_SHOP"

// modules is where npm packages are: see step_tools in .ci/steps.sh.
const modules = "../../.ci/tmp/node_modules"

// contestant is one of the middlewares that are compared: two processes that serve a handler behind it, on one table,
// with a proxy before the store.
type contestant struct {
	name    string
	command []string
	env     []string
	proxy   *proxy

	mu      sync.Mutex
	address [2]string
	process [2]*os.Process
	ahead   time.Duration // of the clock of the second process
	effects map[string]int
	fault   func(step, key string, pid int) // what happens at a step; it returns when the handler may go on
}

// faults are what happens in a row of the table, for one key.
type faults struct {
	what    string
	outcome string // 201 if it is empty
	clients int    // at once; 1 if it is 0
	tries   int    // of each client
	timeout time.Duration
	// at is what is done when a handler is at a step for the first time.
	at map[string]func(c *contestant, pid int)
	// around is what is done instead of sending requests by clients.
	around func(ctx context.Context, c *contestant, key string, s faults) []int
	want   [2]int // effects of Leasehold's middleware: the least and the most
}

// kill kills the process: it is gone before it is told to go on.
func kill(_ *contestant, pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) }

// stop stops the process for longer than the ttl.
func stop(_ *contestant, pid int) {
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	time.Sleep(stormTTL * 5 / 2)
	_ = syscall.Kill(pid, syscall.SIGCONT)
}

// away has the store not respond for a time, beginning now.
func away(d time.Duration) func(*contestant, int) {
	return func(c *contestant, _ int) {
		c.proxy.away(true)
		time.AfterFunc(d, func() { c.proxy.away(false) })
	}
}

// stormRows are the rows of the table.
var stormRows = []faults{
	{what: "killed before the effect", at: map[string]func(*contestant, int){"before": kill}, want: [2]int{1, 1}},
	{what: "killed after the effect, before the response is stored",
		at: map[string]func(*contestant, int){"after": kill}, want: [2]int{2, 2}},
	{what: "killed after the response is stored, before it is sent",
		at: map[string]func(*contestant, int){"stored": kill}, want: [2]int{1, 1}},
	{what: "stopped for longer than the ttl before the effect; the caller tries again", timeout: time.Second,
		at: map[string]func(*contestant, int){"before": stop}, want: [2]int{1, 1}},
	{what: "stopped for longer than the ttl after the effect; the caller tries again", timeout: time.Second,
		at: map[string]func(*contestant, int){"after": stop}, want: [2]int{2, 2}},
	{what: "the store is away for 1 s when the request arrives", want: [2]int{1, 1},
		around: func(ctx context.Context, c *contestant, key string, s faults) []int {
			away(time.Second)(c, 0)
			return c.call(ctx, 0, key, s)
		}},
	{what: "the store is away for 1 s when the response is to be stored",
		at: map[string]func(*contestant, int){"after": away(time.Second)}, want: [2]int{1, 1}},
	{what: "the same for 4 s, longer than the ttl; the caller gives up after 1 s and tries again",
		timeout: time.Second,
		at:      map[string]func(*contestant, int){"after": away(2 * stormTTL)}, want: [2]int{1, 2}},
	{what: "the first request to the store is carried out, and its response is lost", want: [2]int{1, 1},
		around: func(ctx context.Context, c *contestant, key string, s faults) []int {
			c.proxy.arm(newFault(answerLost, "", ""))
			return c.call(ctx, 0, key, s)
		}},
	{what: "the response is stored, and the store's response to that is lost", want: [2]int{1, 1},
		at: map[string]func(*contestant, int){"after": func(c *contestant, _ int) {
			c.proxy.arm(newFault(answerLost, "", ""))
		}}},
	{what: "the store has too much to do, once, when the response is to be stored", want: [2]int{1, 1},
		at: map[string]func(*contestant, int){"after": func(c *contestant, _ int) {
			c.proxy.arm(newFault(throttled, "", tooManyDynamo))
		}}},
	{what: "a copy comes to a process whose clock is a minute ahead, while the request is under way", want: [2]int{1, 1},
		at: map[string]func(*contestant, int){"before": func(*contestant, int) { time.Sleep(stormTTL / 2) }},
		around: func(ctx context.Context, c *contestant, key string, s faults) []int {
			c.clock(time.Minute)
			defer c.clock(0)
			return twice(ctx, c, key, s)
		}},
	{what: "64 at once, the handler responds 201", clients: 64, want: [2]int{1, 1}},
	{what: "64 at once, the handler responds 400", clients: 64, outcome: "400", want: [2]int{1, 1}},
	{what: "64 at once, the handler responds 500", clients: 64, outcome: "500", want: [2]int{1, 1}},
	{what: "64 at once, the handler panics or throws after its effect; 5 tries each", clients: 64,
		outcome: "thrown", tries: 5, want: [2]int{1, 1}},
	{what: "a proxy delivers a copy 3 s after the response", want: [2]int{1, 1},
		around: func(ctx context.Context, c *contestant, key string, s faults) []int {
			last := c.call(ctx, 0, key, s)
			time.Sleep(stormTTL * 3 / 2)
			return append(last, c.call(ctx, 1, key, s)...)
		}},
	{what: "a proxy delivers a copy while the request is under way", want: [2]int{1, 1},
		at:     map[string]func(*contestant, int){"before": func(*contestant, int) { time.Sleep(stormTTL / 4) }},
		around: twice},
	{what: "another request with the same key", want: [2]int{1, 1},
		around: func(ctx context.Context, c *contestant, key string, s faults) []int {
			last := c.call(ctx, 0, key, s)
			s.outcome = "202"
			return append(last, c.call(ctx, 1, key, s)...)
		}},
}

// twice sends a request to one process, and while it is under way to the other.
func twice(ctx context.Context, c *contestant, key string, s faults) []int {
	var first []int
	var done sync.WaitGroup
	done.Go(func() { first = c.call(ctx, 0, key, s) })
	time.Sleep(stormTTL / 8)
	second := c.call(ctx, 1, key, s)
	done.Wait()
	return append(first, second...)
}

// clock starts the second process again, with a clock that is ahead by so much.
func (c *contestant) clock(ahead time.Duration) {
	c.mu.Lock()
	c.ahead = ahead
	before := c.process[1]
	c.mu.Unlock()
	if before != nil {
		_ = before.Kill()
	}
	for range 400 {
		time.Sleep(stormTTL / 40)
		c.mu.Lock()
		after := c.process[1]
		c.mu.Unlock()
		if after != before {
			return
		}
	}
}

// call is a caller: it sends the request until the response is one that will not change. It returns the last status; 0
// is none.
func (c *contestant) call(ctx context.Context, process int, key string, s faults) []int {
	body, _ := json.Marshal(order{Outcome: s.outcome})
	last := 0
	for try := range s.tries {
		c.mu.Lock()
		address := c.address[(process+try)%2]
		c.mu.Unlock()
		status, final := once(ctx, address, key, string(body), s.timeout)
		if last = status; final {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	return []int{last}
}

// once sends a request once. final says that another try gets the same response.
func once(ctx context.Context, address, key, body string, timeout time.Duration) (status int, final bool) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/orders", strings.NewReader(body))
	if err != nil {
		return 0, false
	}
	r.Host = "shop.example"
	r.Header.Set("Idempotency-Key", key)
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r) // it sends nothing twice by itself
	if err != nil {
		return 0, false
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	switch status = response.StatusCode; {
	case response.Header.Get("Idempotency-Replayed") == "true":
		return status, true
	case status == http.StatusConflict:
		return status, response.Header.Get("Retry-After") == ""
	default:
		return status, status < 500
	}
}

// ServeHTTP is what handlers tell: the step at which they are, and their effect.
func (c *contestant) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	step, key := strings.Trim(r.URL.Path, "/"), r.URL.Query().Get("key")
	pid, _ := strconv.Atoi(r.URL.Query().Get("pid"))
	c.mu.Lock()
	fault := c.fault
	if step == "effect" {
		c.effects[key]++
	}
	c.mu.Unlock()
	if fault != nil {
		fault(step, key, pid)
	}
}

// cell is what came of a row: effects by how many keys had so many, and last responses.
type cell struct {
	effects, statuses map[int]int
}

// row has the faults of a row happen to some keys, one after the other.
func (c *contestant) row(ctx context.Context, number, keys int, s faults) cell {
	s.clients = max(s.clients, 1)
	s.tries = cmp.Or(s.tries, 100)
	s.outcome = cmp.Or(s.outcome, "201")
	s.timeout = cmp.Or(s.timeout, time.Minute)
	got := cell{map[int]int{}, map[int]int{}}
	for i := range keys {
		key := fmt.Sprintf("row-%d-key-%d", number, i)
		var did sync.Map
		var doing sync.WaitGroup
		c.mu.Lock()
		c.fault = func(step, of string, pid int) {
			if do := s.at[step]; do != nil && of == key {
				if _, before := did.LoadOrStore(step, true); !before {
					doing.Add(1)
					defer doing.Done()
					do(c, pid)
				}
			}
		}
		c.mu.Unlock()
		statuses := make([][]int, s.clients)
		var all sync.WaitGroup
		for client := range s.clients {
			all.Go(func() {
				if s.around != nil {
					statuses[client] = s.around(ctx, c, key, s)
				} else {
					statuses[client] = c.call(ctx, client, key, s)
				}
			})
		}
		all.Wait()
		doing.Wait()
		if s.timeout < stormTTL {
			time.Sleep(stormTTL) // a process whose caller gave up does what it still does
		}
		c.mu.Lock()
		got.effects[c.effects[key]]++
		c.mu.Unlock()
		for _, status := range slices.Concat(statuses...) {
			got.statuses[status]++
		}
	}
	return got
}

// String has effects as a number, or as the least and the most; and the last responses.
func (c cell) String() string {
	n := slices.Sorted(maps.Keys(c.effects))
	text := strconv.Itoa(n[0])
	if last := n[len(n)-1]; last != n[0] {
		text += "–" + strconv.Itoa(last)
	}
	var said []string
	for _, status := range slices.Sorted(maps.Keys(c.statuses)) {
		said = append(said, strings.Replace(strconv.Itoa(status), "0", "none", 1-min(status, 1)))
	}
	return text + " | " + strings.Join(said, ", ")
}

// start starts one of the processes, again and again until the context ends.
func (c *contestant) start(ctx context.Context, i int, ready chan<- error) {
	for ctx.Err() == nil {
		cmd := exec.CommandContext(ctx, c.command[0], c.command[1:]...)
		cmd.Env, cmd.Stderr = append(os.Environ(), c.env...), os.Stderr
		c.mu.Lock()
		if i == 1 && c.ahead != 0 {
			cmd.Env = append(cmd.Env, clockEnv+"="+strconv.Itoa(int(c.ahead/time.Second)))
		}
		c.mu.Unlock()
		_, err := cmd.StdinPipe()
		out, bad := cmd.StdoutPipe()
		if err = errors.Join(err, bad); err == nil {
			err = cmd.Start()
		}
		if err == nil {
			var line string
			if line, err = bufio.NewReader(out).ReadString('\n'); err == nil {
				c.mu.Lock()
				c.address[i], c.process[i] = strings.TrimSpace(line), cmd.Process
				c.mu.Unlock()
			}
		}
		if ready != nil {
			ready <- err
			ready = nil
			if err != nil {
				return
			}
		} else if err != nil {
			c.mu.Lock()
			c.process[i] = nil // with that clock it does not begin
			c.mu.Unlock()
			time.Sleep(stormTTL / 20)
		}
		_ = cmd.Wait() // it is killed
	}
}

// powertools is the version of Powertools' idempotency that is installed; empty if there is none.
func powertools() string {
	text, err := os.ReadFile(filepath.Join(modules, "@aws-lambda-powertools/idempotency/package.json"))
	if err != nil {
		return ""
	}
	var p struct{ Version string }
	if json.Unmarshal(text, &p) != nil {
		return ""
	}
	if _, err := exec.LookPath("node"); err != nil {
		return ""
	}
	return p.Version
}

// storm has every row happen to so many keys of each contestant, side by side. Results are by row and contestant.
func (p plan) storm(ctx context.Context, dir, binary string, keys int) (names []string, results [][]cell, err error) {
	on, err := startServers(ctx, dir, map[string]bool{"dynamodb": true})
	if on != nil {
		defer on.stop()
	}
	if err != nil {
		return nil, nil, err
	}

	all := []*contestant{{name: "Leasehold's middleware", command: []string{binary}, env: []string{asStormShop + "=1"}}}
	if version := powertools(); version != "" {
		where, err := filepath.Abs(modules)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, &contestant{name: "Powertools (TypeScript) " + version,
			command: []string{"node", "powertools.mjs"},
			env:     []string{"MODULES=" + where, "NODE_NO_WARNINGS=1", fmt.Sprint("TTL=", stormTTL.Milliseconds())}})
	} else {
		p.say("Powertools: skipped: it, or node, is not installed")
	}
	var running sync.WaitGroup
	ctx, end := context.WithCancel(ctx)
	defer running.Wait()
	defer end()
	for _, c := range all {
		c.effects = map[string]int{}
		if c.proxy, err = newProxy(ctx, on.all["dynamodb"].addr); err != nil {
			return nil, nil, err
		}
		defer c.proxy.close()
		var config net.ListenConfig
		l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, err
		}
		runner := &http.Server{Handler: c, ReadHeaderTimeout: time.Minute}
		go func() { _ = runner.Serve(l) }()
		defer runner.Close()
		c.env = append(c.env, "STORE=http://"+c.proxy.listener.Addr().String(), "RUNNER=http://"+l.Addr().String())
		for i := range c.address {
			ready := make(chan error)
			running.Go(func() { c.start(ctx, i, ready) })
			if err := <-ready; err != nil {
				return nil, nil, fmt.Errorf("%s: %w", c.name, err)
			}
		}
		names = append(names, c.name)
	}
	for number, s := range stormRows {
		cells := make([]cell, len(all))
		var both sync.WaitGroup
		for i, c := range all {
			both.Go(func() { cells[i] = c.row(ctx, number, keys, s) })
		}
		both.Wait()
		p.say("%s: %v", s.what, cells)
		results = append(results, cells)
	}
	return names, results, ctx.Err()
}

const powertoolsPromise = "Powertools for AWS Lambda: “You can make any function idempotent, and safe to retry” " +
	"(README).\nTwo processes each, on one table.\n\n"

// stormTable is the second table in docs/internals/faults.md.
func stormTable(names []string, results [][]cell, keys int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d keys for each line, a ttl of %v:\n\n| What happens |", keys, stormTTL)
	for _, name := range names {
		fmt.Fprintf(&b, " %s: effects per key | last responses |", name)
	}
	b.WriteString("\n|" + strings.Repeat(" --- |", 1+2*len(names)) + "\n")
	for i, s := range stormRows {
		fmt.Fprintf(&b, "| %s |", s.what)
		for _, c := range results[i] {
			fmt.Fprintf(&b, " %s |", c)
		}
		b.WriteString("\n")
	}
	return b.String()
}
