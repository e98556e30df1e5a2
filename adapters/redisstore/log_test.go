package redisstore_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
)

// TestSetLog: what the library says goes to the log of the program, without a password, and once although it tries
// several times.
func TestSetLog(t *testing.T) {
	var out bytes.Buffer
	redisstore.SetLog(slog.New(slog.NewTextHandler(&out, nil)))
	defer logging.Enable()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := redisstore.Open(ctx, &redisstore.Options{Addr: "redis://ann:hunter2@127.0.0.1:1"}); err == nil {
		t.Fatal("port 1 is in use")
	}
	if got := out.String(); !strings.Contains(got, "level=WARN") || !strings.Contains(got, "127.0.0.1:1") ||
		strings.Contains(got, "hunter2") || strings.Count(got, "\n") != 1 {
		t.Errorf("the log is %q", got)
	}
}
