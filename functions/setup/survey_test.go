package setup

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/leasehold-dev/leasehold/functions/metrics"
)

// TestNoSurvey: a function says that it makes no survey where it has metrics, once.
func TestNoSurvey(t *testing.T) {
	m, err := metrics.New(noop.NewMeterProvider(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		metrics *metrics.Metrics
		want    int
	}{{nil, 0}, {m, 1}} {
		var log bytes.Buffer
		NoSurvey(t.Context(), c.metrics, slog.New(slog.NewTextHandler(&log, nil)))
		if got := log.String(); strings.Count(got, "\n") != c.want || c.want > 0 && !strings.Contains(got, "level=INFO") {
			t.Errorf("the log: %q", got)
		}
	}
}
