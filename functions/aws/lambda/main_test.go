package main

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/functions/aws"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
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

// TestAuditEventsAtAnyLevel: the level of the settings leaves out lines, and no audit event.
func TestAuditEventsAtAnyLevel(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-west-1")
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	for _, level := range []string{"info", "warn", "error", "none"} {
		var log bytes.Buffer
		h, err := open(t.Context(), "api", []string{"LEASEHOLD_TABLE=x", "LEASEHOLD_FRONT_DOOR=http-api",
			"LEASEHOLD_LOG_LEVEL=" + level}, slog.New(telemetry.NewHandler(slog.NewJSONHandler(&log, nil))))
		if err != nil {
			t.Fatal(err)
		}
		event := `{"version":"2.0","rawPath":"/v1/tenants/acme/locks","requestContext":{"http":{"method":"GET",` +
			`"path":"/v1/tenants/acme/locks","sourceIp":"192.0.2.1"}},"headers":{"host":"x.example"}}`
		if _, err := h.Invoke(t.Context(), []byte(event)); err != nil {
			t.Fatal(err)
		}
		lines := strings.Count(log.String(), "\n")
		if events := contracttest.AuditEvents(t, log.String()); len(events) != 1 ||
			events[0].Outcome != "UNAUTHENTICATED" || (lines > 1) != (level == "info") {
			t.Errorf("%s: %d lines, %+v: %s", level, lines, events, &log)
		}
	}
}
