package once_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/contracts/conformance"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/proof/conformancetest"
)

// TestConformance: the client does what the scripts say, which hold for the clients in all languages.
func TestConformance(t *testing.T) {
	conformancetest.Run(t, conformance.Once, openConformance)
}

// TestConformanceThroughFrontEnds: the same through each service in front of a Lambda function.
func TestConformanceThroughFrontEnds(t *testing.T) {
	conformancetest.Through(t, conformance.Once, openConformance)
}

// TestConformanceCanFail: a script of which a step is wrong fails, whichever step that is.
func TestConformanceCanFail(t *testing.T) {
	conformancetest.Falsify(t, conformance.Once, openConformance)
}

// TestConformanceCatches: clients that do what none may do fail.
func TestConformanceCatches(t *testing.T) {
	conformancetest.Catch(t, conformance.Once, openConformance,
		"each try has another request_id", "all commands have one request_id", "no one is asked to wait",
		"redirects are followed", "each request is sent twice", "no credentials",
		"the clocks are not looked at")
}

func openConformance(t *testing.T, e conformancetest.Env) conformancetest.Program {
	t.Helper()
	return &program{runs: e.Dial(t).Runs(e.Client.Tenant), env: e}
}

// program is a client of runs in the terms of the scripts.
type program struct {
	runs *client.Runs
	env  conformancetest.Env
	ends sync.Once
	over chan struct{} // closed when the script is
}

// script is closed when the script is over.
func (p *program) script() chan struct{} {
	p.ends.Do(func() { p.over = make(chan struct{}) }) // in the bubble
	return p.over
}

// Close ends what goes on in the background.
func (p *program) Close() error {
	close(p.script())
	return nil
}

// Do implements [conformancetest.Program].
func (p *program) Do(ctx context.Context, c conformancetest.Call) (conformancetest.Obtained, error) {
	if c.Op != "once" {
		return conformancetest.Obtained{}, fmt.Errorf("there is no operation %q", c.Op)
	}
	seconds := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	o := once.Options{
		Owner: p.env.Client.Owner, TTL: time.Duration(c.Options.TTL) * time.Second, Heartbeat: seconds(c.Options.Heartbeat),
		Wait:        seconds(*cmp.Or(c.Options.Wait, new(0.0))),
		MaxFailures: c.Options.MaxFailures, MaxTakeovers: c.Options.Takeovers, Fingerprint: c.Options.Fingerprint,
	}
	o.SetClock(func() (monotonic, wall time.Time) { m := p.env.Clock.Moment(); return m.Time(), m.Wall() })
	got, err := p.runs.Run(ctx, c.Key, func(ctx context.Context, l once.Lock) (string, error) {
		return c.Work(ctx, map[string]any{"token": l.Token})
	}, &o)
	if err != nil {
		return conformancetest.Obtained{}, err
	}
	if got.Storing != nil {
		go func() {
			<-p.script()
			got.Storing.Stop()
		}()
	}
	return conformancetest.Obtained{Value: map[string]any{
		"status": got.Status, "result": got.Result, "token": got.Token, "retry_after_ms": got.RetryAfter.Milliseconds(),
	}}, nil
}

// Describe implements [conformancetest.Program].
func (*program) Describe(err error) map[string]any {
	d := map[string]any{"class": "unavailable"}
	e, coded := errors.AsType[*contracts.Error](err)
	if coded {
		d["code"], d["field"], d["retry_after_ms"] = e.Code, e.Field, e.RetryAfter.Milliseconds()
	}
	switch {
	case errors.Is(err, once.ErrLost):
		d["class"] = "lost"
	case errors.Is(err, context.Canceled):
		d["class"] = "cancelled"
	case coded && e.Status < 500 && !e.Retryable:
		d["class"] = "rejected"
	}
	return d
}
