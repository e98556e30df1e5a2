package telemetry_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
)

// quiet are panels that show nothing on the server of this test, where nothing of the kind happens, and those of the
// programs that are members of clusters.
var quiet = map[string]bool{
	"Calls that fail": true, "Sweeps": true, "Deliveries of the queue": true,
	"Activations": true, "Claim to serve, 99 %": true, "Forwarded": true, "Failover, 50 % and 99 %": true,
}

// TestDashboard: a Prometheus scrapes a server, and each query of the Grafana dashboard is one that it can answer, with
// a series after some traffic.
func TestDashboard(t *testing.T) {
	program, err := exec.LookPath("prometheus")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("prometheus is not installed: apt-get install prometheus")
		}
		t.Skip("prometheus is not installed: apt-get install prometheus")
	}
	leasehold := build(t, "cmd/leasehold")
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	page, at, dir := free(t), free(t), t.TempDir()
	server := exec.CommandContext(ctx, leasehold, "serve", "--listen", "127.0.0.1:0", "--store", "dynamodb", "--table",
		"leasehold", "--region", "eu-west-1", "--create-table",
		"--endpoint", dynamodbtest.Start(t, nil).URL, "--metrics-listen", page, "--metrics-survey", "1s")
	server.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=local", "AWS_SECRET_ACCESS_KEY=local")
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	server.Stderr = os.Stderr
	start(t, server)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	base := strings.TrimSpace(strings.TrimPrefix(line, "listening on ")) + "/v1"

	config := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(config,
		[]byte("scrape_configs:\n- job_name: leasehold\n  scrape_interval: 1s\n  static_configs:\n  - targets: ['"+page+
			"']\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, exec.CommandContext(ctx, program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+at, "--log.level=error"))

	missing := queries(t)
	for round := 0; len(missing) > 0; round++ {
		traffic(ctx, t, base, round, missing)
		time.Sleep(time.Second) // a scrape
		for query, title := range missing {
			n, err := series(ctx, "http://"+at, query)
			if err != nil && ctx.Err() != nil {
				t.Fatalf("no answer: %v; still without a series: %q", err, missing)
			}
			if err != nil && !strings.Contains(err.Error(), "connection refused") && !strings.Contains(err.Error(), "503") {
				t.Fatalf("%s: %s: %v", title, query, err)
			}
			if n > 0 {
				delete(missing, query)
			}
		}
	}
}

// start starts a program that ends with the test.
func start(t *testing.T, c *exec.Cmd) {
	t.Helper()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
}

// queries are those of the dashboard, with the titles of their panels.
func queries(t *testing.T) map[string]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "infra", "observability", "grafana", "leasehold.json"))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(b, &board); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			if !quiet[p.Title] {
				all[strings.NewReplacer("$job", "leasehold", "$__rate_interval", "30s").Replace(q.Expr)] = p.Title
			}
		}
	}
	if len(all) < 25 {
		t.Fatalf("%d queries", len(all))
	}
	return all
}

// series is how many a query has now.
func series(ctx context.Context, prometheus, query string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, prometheus+"/api/v1/query?query="+url.QueryEscape(query),
		http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var got struct {
		Status, Error string
		Data          struct{ Result []any }
	}
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || got.Status != "success" {
		return 0, fmt.Errorf("%s: %s, %w", resp.Status, got.Error, err)
	}
	return len(got.Data.Result), nil
}

// traffic sends requests of all kinds. Most rounds repeat what the first one did under other names.
func traffic(ctx context.Context, t *testing.T, base string, round int, missing map[string]string) {
	t.Helper()
	post := func(path, body string) (token int64) {
		body = strings.ReplaceAll(body, "#", strconv.Itoa(round))
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+strings.ReplaceAll(path, "#", strconv.Itoa(round)),
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatalf("%v; still without a series: %q", err, missing)
		}
		defer resp.Body.Close()
		var got struct {
			Token int64 `json:"fencing_token"`
		}
		b, err := io.ReadAll(resp.Body)
		if err != nil || json.Unmarshal(b, &got) != nil || resp.StatusCode >= http.StatusInternalServerError ||
			resp.StatusCode == http.StatusBadRequest || resp.StatusCode == http.StatusNotFound {
			t.Fatalf("%s: %s: %s, %v", path, resp.Status, b, err)
		}
		return got.Token
	}
	const lock, run = "/tenants/acme/locks/k#", "/tenants/acme/runs/r#"
	token := post(lock+"/acquire", `{"request_id":"1","owner_id":"ann","ttl_seconds":1}`)
	// again
	post(lock+"/acquire", `{"request_id":"1","owner_id":"ann","ttl_seconds":1}`)
	// held
	post(lock+"/acquire", `{"request_id":"2","owner_id":"bob","ttl_seconds":60}`)
	// waits, and takes over
	post(lock+"/acquire", `{"request_id":"3","owner_id":"bob","ttl_seconds":60,"wait_seconds":20}`)
	// lost
	post(lock+"/renew", fmt.Sprintf(`{"request_id":"4","owner_id":"ann","ttl_seconds":1,"fencing_token":%d}`, token))
	token = post("/tenants/acme/locks/r#/acquire", `{"request_id":"1","owner_id":"ann","ttl_seconds":60}`)
	post("/tenants/acme/locks/r#/renew",
		fmt.Sprintf(`{"request_id":"2","owner_id":"ann","ttl_seconds":60,"fencing_token":%d}`, token))
	token = post(run+"/begin", `{"owner_id":"w","request_id":"1","ttl_seconds":300}`)
	post(run+"/finish", fmt.Sprintf(`{"owner_id":"w","fencing_token":%d,"status":"READY"}`, token))
	post("/tenants/acme/clusters/c/members/m#/join", `{"request_id":"j","kinds":["room"],"ttl_seconds":60}`)
}
