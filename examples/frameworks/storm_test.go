package frameworks

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/idempotency"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// stormVariable is set in the processes of [TestStorm]: the framework, the server of the gate, and the file of payments.
const stormVariable = "FRAMEWORKS_TEST_STORM"

func TestMain(m *testing.M) {
	if storm := os.Getenv(stormVariable); storm != "" {
		framework, rest, _ := strings.Cut(storm, " ")
		gate, ledger, _ := strings.Cut(rest, " ")
		log.Panic(sells(framework, gate, ledger))
	}
	os.Exit(m.Run())
}

// sells serves a shop whose payments are lines of a file, and takes a while before and after each.
func sells(framework, gate, ledger string) error {
	file, err := os.OpenFile(ledger, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	c, err := client.New(gate, nil)
	if err != nil {
		return err
	}
	m, err := idempotency.New(c.Runs("shop"), func(*http.Request) string { return "ann" }, &idempotency.Options{
		Name: "payments", TTL: 2 * time.Second, Wait: new(time.Minute), IgnoreHost: true, // two processes have two ports
		Warn: func(*http.Request, error) {},
	})
	if err != nil {
		return err
	}
	s := &shop{pays: func(key string) (string, error) {
		time.Sleep(20 * time.Millisecond)
		line := fmt.Sprintf("%s %d\n", key, os.Getpid())
		_, err := file.WriteString(line)
		time.Sleep(20 * time.Millisecond)
		return line, err
	}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return http.Serve(l, all[framework](s, m))
}

// seller is a process that sells.
type seller struct {
	*exec.Cmd

	url string
}

func startSeller(t *testing.T, framework, gate, ledger string) seller {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := exec.CommandContext(t.Context(), exe)
	p.Env, p.Stderr = append(os.Environ(), stormVariable+"="+framework+" "+gate+" "+ledger), os.Stderr
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = p.Process.Kill(), p.Wait() })
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return seller{p, "http://" + strings.TrimSpace(address)}
}

// payments are the lines of the file: which processes paid under each key, in their order.
func payments(t *testing.T, ledger string) map[string][]int {
	t.Helper()
	text, err := os.ReadFile(ledger)
	if err != nil {
		t.Fatal(err)
	}
	paid := map[string][]int{}
	for line := range strings.Lines(string(text)) {
		key, process, _ := strings.Cut(strings.TrimSpace(line), " ")
		id, _ := strconv.Atoi(process)
		paid[key] = append(paid[key], id)
	}
	return paid
}

// TestStorm: in every framework, two servers get requests for the same keys, and one of them is killed (kill -9) again
// and again in the middle of a payment. Each key has one payment, but for what no middleware can prevent: one more for
// a process that was killed between its payment and the end of its request. All callers of a key get the response of
// the last one.
func TestStorm(t *testing.T) {
	const waves, keys, callers = 2, 4, 4
	for framework := range all {
		t.Run(framework, func(t *testing.T) {
			t.Parallel()
			gate := httptest.NewServer(httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, nil))
			t.Cleanup(gate.Close)
			ledger := filepath.Join(t.TempDir(), "ledger")
			if err := os.WriteFile(ledger, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			var (
				mu      sync.Mutex // over sellers and got
				sellers [2]seller
				got     = map[string][]string{}
				killed  = map[int]bool{}
				all     sync.WaitGroup
			)
			for i := range sellers {
				sellers[i] = startSeller(t, framework, gate.URL, ledger)
			}
			pay := func(key string, turn int) {
				for ; t.Context().Err() == nil; turn++ {
					mu.Lock()
					url := sellers[turn%2].url
					mu.Unlock()
					if response, ok := once(t.Context(), url, key); ok {
						mu.Lock()
						got[key] = append(got[key], response)
						mu.Unlock()
						return
					}
					time.Sleep(20 * time.Millisecond)
				}
			}
			for wave := range waves {
				var some []string
				for i := range keys {
					some = append(some, fmt.Sprintf("k%d-%d", wave, i))
					for turn := range callers {
						all.Go(func() { pay(some[i], turn) })
					}
				}
				victim := sellers[0]
				for mine := false; !mine; time.Sleep(2 * time.Millisecond) { // until it has paid, or the other one has paid all
					paid, done := payments(t, ledger), true
					for _, key := range some {
						mine = mine || slices.Contains(paid[key], victim.Process.Pid)
						done = done && len(paid[key]) > 0
					}
					mine = mine || done
				}
				_, _ = victim.Process.Kill(), victim.Wait()
				killed[victim.Process.Pid] = true
				next := startSeller(t, framework, gate.URL, ledger)
				mu.Lock()
				sellers[0] = next
				mu.Unlock()
			}
			all.Wait()
			paid := payments(t, ledger)
			if len(paid) != waves*keys {
				t.Errorf("%d keys have payments", len(paid))
			}
			for _, key := range slices.Sorted(maps.Keys(paid)) {
				by := paid[key]
				last := by[len(by)-1]
				for i, process := range by[:len(by)-1] {
					if !killed[process] || slices.Contains(by[i+1:], process) {
						t.Errorf("%s: paid by %v, killed were %v", key, by, killed)
					}
				}
				want := fmt.Sprintf("201 %s %d\n", key, last)
				if len(got[key]) != callers || slices.ContainsFunc(got[key], func(s string) bool { return s != want }) {
					t.Errorf("%s: %q, want %d times %q", key, got[key], callers, want)
				}
			}
		})
	}
}

// once sends a payment once; ok is false if there is no response, or one that says to send it again.
func once(ctx context.Context, url, key string) (response string, ok bool) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/pay/"+key, strings.NewReader(key))
	if err != nil {
		return err.Error(), true
	}
	r.Header.Set(idempotency.Header, key)
	r.GetBody, r.Close = nil, true
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", false
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode == http.StatusConflict || a.StatusCode == http.StatusServiceUnavailable {
		return "", false
	}
	return fmt.Sprintf("%d %s", a.StatusCode, body), true
}
