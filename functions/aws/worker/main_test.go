package main

import (
	"log/slog"
	"strings"
	"testing"
	"time"
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

const least = "LEASEHOLD_TABLE=x LEASEHOLD_TARGET_URL=https://worker.example/run "

func TestSettings(t *testing.T) {
	w, err := worker(env(least))
	if err != nil || w.Work == nil || w.TTL != 0 || w.Heartbeat != 0 || w.MaxFailures != 0 || w.AckLocked {
		t.Errorf("%+v, %v", w, err)
	}
	w, err = worker(env(least + "LEASEHOLD_TARGET_TOKEN=x LEASEHOLD_TTL=2m LEASEHOLD_HEARTBEAT=30s LEASEHOLD_MAX_FAILURES=7 LEASEHOLD_ON_LOCKED=ack"))
	if err != nil || w.TTL != 2*time.Minute || w.Heartbeat != 30*time.Second || w.MaxFailures != 7 || !w.AckLocked {
		t.Errorf("%+v, %v", w, err)
	}
}

// TestRefusedSettings: the function does not start, and says what to change.
func TestRefusedSettings(t *testing.T) {
	for vars, says := range map[string]string{
		"LEASEHOLD_TABLE=x": "LEASEHOLD_TARGET_URL is required",
		"LEASEHOLD_TARGET_URL=https://worker.example/run":                    "LEASEHOLD_TABLE is required",
		"LEASEHOLD_TABLE=x LEASEHOLD_TARGET_URL=http://worker.example/run":   "must begin with https://",
		"LEASEHOLD_TABLE=x LEASEHOLD_TARGET_URL=https://a:b@worker.example/": "must not have a user",
		least + "LEASEHOLD_TTL=soon":                                         `LEASEHOLD_TTL is "soon"`,
		least + "LEASEHOLD_HEARTBEAT=0s":                                     `LEASEHOLD_HEARTBEAT is "0s"`,
		least + "LEASEHOLD_MAX_FAILURES=-1":                                  `LEASEHOLD_MAX_FAILURES is "-1"`,
		least + "LEASEHOLD_ON_LOCKED=skip":                                   "must be retry or ack",
		least + "LEASEHOLD_MAX_SKEW=x":                                       `LEASEHOLD_MAX_SKEW is "x"`,
	} {
		if w, err := open(t.Context(), env(vars), slog.New(slog.DiscardHandler)); w != nil || err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", vars, err, says)
		}
	}
}
