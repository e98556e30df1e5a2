package main

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/analysis"
)

// env is an environment of name=value words.
func env(vars string) func(string) string {
	return func(name string) string {
		for v := range strings.FieldsSeq(vars) {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

func TestSettings(t *testing.T) {
	s, err := sweepFrom(env("LEASEHOLD_MAX_TAKEOVERS=7 LEASEHOLD_REQUEUE_EVERY=30m LEASEHOLD_SWEEP_GRACE=1m"))
	if want := (analysis.Sweep{MaxTakeovers: 7, RequeueEvery: 30 * time.Minute, Grace: time.Minute}); err != nil || s != want {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestRefusedSettings: the function does not start, and says what to change.
func TestRefusedSettings(t *testing.T) {
	for vars, says := range map[string]string{
		"LEASEHOLD_QUEUE_URL=x":                           "LEASEHOLD_TABLE is required",
		"LEASEHOLD_TABLE=x":                               "LEASEHOLD_QUEUE_URL is required",
		"LEASEHOLD_TABLE=x LEASEHOLD_MAX_TAKEOVERS=many":  `LEASEHOLD_MAX_TAKEOVERS is "many"`,
		"LEASEHOLD_TABLE=x LEASEHOLD_REQUEUE_EVERY=daily": `LEASEHOLD_REQUEUE_EVERY is "daily"`,
		"LEASEHOLD_TABLE=x LEASEHOLD_SWEEP_GRACE=-1s":     `LEASEHOLD_SWEEP_GRACE is "-1s"`,
	} {
		if s, err := open(t.Context(), env(vars), slog.New(slog.DiscardHandler)); s != nil || err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", vars, err, says)
		}
	}
}
