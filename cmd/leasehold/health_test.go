package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestHealth: the exit code says whether a server is ready, or a program listens.
func TestHealth(t *testing.T) {
	status, asked := http.StatusOK, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.Path
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"code":"UNAVAILABLE"}`))
	}))
	defer server.Close()
	address := server.Listener.Addr().String()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closedPort := closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		env    map[string]string
		args   []string
		status int
		code   int
		says   string
	}{
		"ready":          {nil, []string{"--server", "http://" + address + "/"}, 200, exitOK, "is ready"},
		"by variable":    {map[string]string{"LEASEHOLD_SERVER": "http://" + address}, nil, 200, exitOK, "is ready"},
		"where serve is": {map[string]string{"LEASEHOLD_LISTEN": address}, nil, 200, exitOK, "is ready"},
		"on all addresses": {map[string]string{"LEASEHOLD_LISTEN": "0.0.0.0:" + port,
			"LEASEHOLD_INSECURE_LISTEN_ANYWHERE": "1"}, nil, 200, exitOK, "http://" + address + " is ready"},
		"at the platform's": {map[string]string{"PORT": port}, nil, 200, exitOK, "http://" + address + " is ready"},
		"with an issuer": {map[string]string{"PORT": port, "LEASEHOLD_AUTH_ISSUER": "https://issuer.example",
			"LEASEHOLD_AUTH_AUDIENCE": "x"}, nil, 200, exitOK, "http://" + address + " is ready"},
		"not ready": {nil, []string{"--server", "http://" + address}, 503, exitFailed,
			`is not ready: 503 Service Unavailable: {"code":"UNAVAILABLE"}`},
		"a redirect": {nil, []string{"--server", "http://" + address}, 302, exitFailed, "is not ready: 302 Found"},
		"not there": {nil, []string{"--server", "http://" + closedPort}, 200, exitFailed,
			"cannot reach http://" + closedPort},
		"no URL":         {nil, []string{"--server", "localhost"}, 200, exitUsage, "--server"},
		"wrong settings": {map[string]string{"LEASEHOLD_LISTEN": "x"}, nil, 200, exitUsage, "LEASEHOLD_LISTEN"},
		"no time":        {nil, []string{"--timeout", "0s"}, 200, exitUsage, "--timeout"},
		"listening":      {nil, []string{"--listening", address}, 503, exitOK, "a program listens on " + address},
		"not listening": {nil, []string{"--listening", closedPort}, 200, exitFailed,
			"no program listens on " + closedPort},
		"listening at no port": {nil, []string{"--listening", "localhost"}, 200, exitUsage, "--listening"},
	} {
		t.Run(name, func(t *testing.T) {
			for key, value := range c.env {
				t.Setenv(key, value)
			}
			status, asked = c.status, ""
			var out, errs strings.Builder
			if code := run(t.Context(), append([]string{"health"}, c.args...), &out, &errs); code != c.code ||
				!strings.Contains(out.String()+errs.String(), c.says) {
				t.Errorf("%d %q %q", code, &out, &errs)
			}
			if c.code == exitOK && len(c.args) == 0 && asked != "GET /readyz" {
				t.Errorf("asked %q", asked)
			}
		})
	}
}
