package main

import (
	"log/slog"
	"strings"
	"testing"
)

// TestRejectedSettings: the function does not start, and says what to change.
func TestRejectedSettings(t *testing.T) {
	for _, c := range []struct{ handler, env, says string }{
		{"", "", `the handler name of this function is "": it must be api, worker or sweep`},
		{"bootstrap", "LEASEHOLD_TABLE=x", `"bootstrap": it must be api, worker or sweep`},
		{"api", "", "LEASEHOLD_TABLE is required"},
		{"api", "LEASEHOLD_TABLE=x LEASEHOLD_MAX_SKEW=soon", `LEASEHOLD_MAX_SKEW is "soon"`},
		{"api", "LEASEHOLD_TABLE=x LEASEHOLD_AUTH_ISSUER=http://i.example LEASEHOLD_AUTH_AUDIENCE=a", "https://"},
		{"worker", "LEASEHOLD_TABLE=x", "LEASEHOLD_TARGET_URL is required"},
		{"worker", "LEASEHOLD_TABLE=x LEASEHOLD_TARGET_URL=http://worker.example/run", "must begin with https://"},
		{"sweep", "LEASEHOLD_QUEUE_URL=x", "LEASEHOLD_TABLE is required"},
		{"sweep", "LEASEHOLD_TABLE=x", "LEASEHOLD_QUEUE_URL is required"},
	} {
		_, err := open(t.Context(), c.handler, strings.Fields(c.env), slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %s: %v, want %q", c.handler, c.env, err, c.says)
		}
	}
}
