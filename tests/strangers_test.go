package tests

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/proof/suite"
)

// TestStrangersFillNoDisk: 10,000 requests without a token, in a deep run 40,000, write less than 1 MB of log and
// audit, where a record of each would be more; also where both share a file system of 16 MB with the store. All
// renewals of another caller succeed meanwhile, and who had its lock is still known to the server afterwards.
func TestStrangersFillNoDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=16m", "none", dir).CombinedOutput(); err == nil {
		t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	} else {
		t.Logf("NOT SHOWN on a small disk, which needs `mount -t tmpfs`, as root on Linux: %v %s", err, out)
	}
	file, audit := filepath.Join(dir, "tokens"), filepath.Join(dir, "audit.jsonl")
	code, secret, said := run(t, nil, "token", "new", "--file", file, "--subject", "ann", "--tenant", "acme", "--right", "admin")
	if code != 0 {
		t.Fatal(code, said)
	}
	secret = strings.TrimSpace(secret)
	p := start(t, "--data", filepath.Join(dir, "data"), "--auth-tokens", file, "--audit-log", audit)
	ask := func(method, path, token, body string, into any) int {
		r, err := http.NewRequestWithContext(t.Context(), method, p.url+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Error(err)
			return 0
		}
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		if err == nil && into != nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			t.Error(err)
		}
		return a.StatusCode
	}
	const lock = "/v1/tenants/acme/locks/k"
	var lease contracts.Lease
	if status := ask("POST", lock+"/acquire", secret, `{"request_id":"r","ttl_seconds":3600}`, &lease); status != 200 {
		t.Fatal(status)
	}

	const senders = 8
	requests := suite.AtDepth[int64](10_000, 40_000)
	var left atomic.Int64
	left.Store(requests)
	var sending sync.WaitGroup
	for range senders {
		sending.Go(func() {
			for left.Add(-1) >= 0 {
				if status := ask("POST", lock+"/acquire", "", `{}`, nil); status != http.StatusUnauthorized {
					t.Errorf("without a token: %d", status)
					return
				}
			}
		})
	}
	over, renewed := make(chan struct{}), 0
	go func() { sending.Wait(); close(over) }()
	for going := true; going; renewed++ {
		select {
		case <-over:
			going = false
		case <-time.After(10 * time.Millisecond):
		}
		body := fmt.Sprintf(`{"request_id":"n%d","fencing_token":%d,"ttl_seconds":3600}`, renewed, lease.FencingToken)
		if status := ask("POST", lock+"/renew", secret, body, nil); status != http.StatusOK {
			t.Fatalf("renewal %d: %d", renewed, status)
		}
	}
	var known contracts.LeaseHistory
	if status := ask("GET", "/v1/history?kind=lock&tenant_id=acme&key=k", secret, "", &known); status != 200 ||
		len(known.Leases) != 1 || known.Leases[0].FencingToken != lease.FencingToken {
		t.Errorf("who had it: %d %+v", status, known)
	}
	awaited(t, "the events are about all requests", func() bool { return requestsTold(t, audit+".rejected") == requests })
	p.kill(t)
	written := 0
	for line := range strings.Lines(p.stderr.String()) {
		if !strings.Contains(line, "/renew") { // each has its own
			written += len(line)
		}
	}
	for _, f := range []string{audit, audit + ".rejected"} {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		written += int(info.Size())
	}
	if written >= 1e6 {
		t.Errorf("%d bytes were written", written)
	}
	t.Logf("%d bytes were written, and a lease was renewed %d times", written, renewed)
	if !strings.Contains(p.stderr.String(), "of the file system of the store") {
		t.Errorf("no warning of the file system: %s", p.stderr.String()[:min(p.stderr.Len(), 2000)])
	}
}

// requestsTold is how many requests the audit events of a file are about.
func requestsTold(t *testing.T, file string) (requests int64) {
	t.Helper()
	events, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(events)) {
		var l struct{ Audit contracts.AuditEvent }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		requests += max(1, l.Audit.Count)
	}
	return requests
}
