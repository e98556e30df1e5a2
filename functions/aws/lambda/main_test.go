package main

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/functions/aws"
	"github.com/leasehold-dev/leasehold/functions/settings"
)

// TestRejectedSettings: the function does not start, and says what to change.
func TestRejectedSettings(t *testing.T) {
	for _, c := range []struct{ handler, env, says string }{
		{"", "", `the handler name of this function is "": it must be api, worker or sweep`},
		{"bootstrap", "LEASEHOLD_TABLE=x", `"bootstrap": it must be api, worker or sweep`},
		{"api", "", "LEASEHOLD_TABLE is required"},
		{"api", "LEASEHOLD_TABLE=x LEASEHOLD_MAX_SKEW=soon", `LEASEHOLD_MAX_SKEW is "soon"`},
		{"api", "LEASEHOLD_TABLE=x LEASEHOLD_AUTH_ISSUER=http://i.example LEASEHOLD_AUTH_AUDIENCE=a", "https://"},
		{"api", "LEASEHOLD_TABLE=x", "LEASEHOLD_FRONT_DOOR is required without LEASEHOLD_AUTH_ISSUER"},
		{"worker", "LEASEHOLD_TABLE=x", "LEASEHOLD_TARGET_URL is required"},
		{"worker", "LEASEHOLD_TABLE=x LEASEHOLD_TARGET_URL=http://worker.example/run", "must begin with https://"},
		{"sweep", "LEASEHOLD_QUEUE_URL=x", "LEASEHOLD_TABLE is required"},
		{"sweep", "LEASEHOLD_TABLE=x LEASEHOLD_RETENTION=1s", `LEASEHOLD_RETENTION is "1s"`},
	} {
		_, err := open(t.Context(), c.handler, strings.Fields(c.env), slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %s: %v, want %q", c.handler, c.env, err, c.says)
		}
	}
}

// TestFrontDoors: the setting's values are the names of the front ends.
func TestFrontDoors(t *testing.T) {
	s, _ := settings.Find("LEASEHOLD_FRONT_DOOR")
	if want := []string{string(aws.FunctionURL), string(aws.HTTPAPI), string(aws.RESTAPI),
		string(aws.LoadBalancer)}; !slices.Equal(s.Choices, want) {
		t.Errorf("%v, want %v", s.Choices, want)
	}
}
