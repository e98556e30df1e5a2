package setup

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// surveyTimeout bounds one survey.
const surveyTimeout = time.Minute

// SurveyLoop counts what is in a store, for metrics, at once and then about once in a time, until ctx ends. It returns
// at once without metrics, and if every is 0.
func SurveyLoop(ctx context.Context, m *metrics.Metrics, every time.Duration, store docstore.Store,
	ids *machineid.Service, log *slog.Logger, d *metrics.Damage) {
	if m == nil || every <= 0 {
		return
	}
	for {
		err := surveyOnce(ctx, m, store, ids, d)
		switch {
		case ctx.Err() != nil || errors.Is(err, docstore.ErrClosed):
			return
		case err != nil:
			log.WarnContext(ctx, "cannot count what is in the store, for metrics; the next attempt follows", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(every - every/10 + rand.N(every/5+1)):
		}
	}
}

// NoSurvey says in the log of a function with metrics that it does not do what [SurveyLoop] does: it runs only while it
// has requests.
func NoSurvey(ctx context.Context, m *metrics.Metrics, log *slog.Logger) {
	if m != nil {
		log.InfoContext(ctx, "a function does not count what is in the store for metrics: leasehold serve does")
	}
}

func surveyOnce(ctx context.Context, m *metrics.Metrics, store docstore.Store, ids *machineid.Service,
	d *metrics.Damage) error {
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	return m.Survey(ctx, store, ids, d)
}
