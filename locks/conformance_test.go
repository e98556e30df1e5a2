package locks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/contracts/conformance"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/proof/conformancetest"
)

// TestConformance: the client does what the scripts say, which hold for the clients in all languages.
func TestConformance(t *testing.T) {
	conformancetest.Run(t, conformance.Locks, openConformance)
}

// TestConformanceThroughFrontEnds: the same through each service in front of a Lambda function.
func TestConformanceThroughFrontEnds(t *testing.T) {
	conformancetest.Through(t, conformance.Locks, openConformance)
}

// TestConformanceCanFail: a script of which a step is wrong fails, whichever step that is.
func TestConformanceCanFail(t *testing.T) {
	conformancetest.Falsify(t, conformance.Locks, openConformance)
}

// TestConformanceCatches: clients that do what none may do fail.
func TestConformanceCatches(t *testing.T) {
	conformancetest.Catch(t, conformance.Locks, openConformance,
		"each try has another request_id", "all commands have one request_id", "no one is asked to wait",
		"redirects are followed", "any content type will do", "each request is sent twice", "no credentials",
		"the clocks are not looked at")
}

func openConformance(t *testing.T, e conformancetest.Env) conformancetest.Program {
	t.Helper()
	own := locks.Options{Owner: e.Client.Owner, TTL: time.Duration(e.Client.TTLSeconds) * time.Second}
	c, err := locks.New(e.Dial(t).LockAPI().For(e.Client.Tenant), own.WithClock(e.Clock.Moment))
	if err != nil {
		t.Fatal(err)
	}
	return program{c}
}

// program is a client of locks in the terms of the scripts.
type program struct{ *locks.Client }

// Close implements io.Closer.
func (p program) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return p.Client.Close(ctx)
}

// Do implements [conformancetest.Program].
func (p program) Do(ctx context.Context, c conformancetest.Call) (conformancetest.Obtained, error) {
	o := options(c.Options)
	switch c.Op {
	case "acquire", "try":
		acquire := p.Lock
		if c.Op == "try" {
			acquire = p.TryLock
		}
		l, err := acquire(ctx, c.Key, o)
		if err != nil {
			return conformancetest.Obtained{}, err
		}
		return conformancetest.Obtained{Handle: l, Context: l.Context(), Value: lockValue(l)}, nil
	case "do":
		result := ""
		err := p.Client.Do(ctx, c.Key, o, func(ctx context.Context, l *locks.Lock) (err error) {
			result, err = c.Work(ctx, lockValue(l))
			return err
		})
		return conformancetest.Obtained{Value: map[string]any{"result": result}}, err
	case "acquire_all":
		s, err := p.LockAll(ctx, c.Keys, o)
		if err != nil {
			return conformancetest.Obtained{}, err
		}
		tokens := map[string]any{}
		for _, k := range s.Keys() {
			tokens[k] = s.Token(k)
		}
		return conformancetest.Obtained{Handle: s, Context: s.Context(), Value: map[string]any{"tokens": tokens}}, nil
	case "take":
		token, err := p.Take(ctx, c.Key, locks.Rate{Limit: c.Options.Limit,
			Window: time.Duration(c.Options.Window) * time.Second},
			&locks.TakeOptions{Wait: o.Wait, MaxWaiting: o.MaxWaiting, Metadata: o.Metadata})
		return conformancetest.Obtained{Value: map[string]any{"token": token}}, err
	case "release":
		return conformancetest.Obtained{}, c.Of.(interface {
			Unlock(ctx context.Context) error
		}).Unlock(ctx)
	}
	return conformancetest.Obtained{}, fmt.Errorf("there is no operation %q", c.Op)
}

func lockValue(l *locks.Lock) map[string]any {
	return map[string]any{"key": l.Key(), "token": l.Token(), "permit": l.Permit()}
}

func options(o conformance.Options) *locks.LockOptions {
	seconds := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	var wait *time.Duration
	if o.Wait != nil {
		wait = new(seconds(*o.Wait))
	}
	return &locks.LockOptions{
		TTL: time.Duration(o.TTL) * time.Second, Wait: wait, Shared: o.Shared, Permits: o.Permits, Fair: o.Fair,
		MaxWaiting: o.Waiting,
		Replace:    o.Replace, LockDelay: time.Duration(o.LockDelay) * time.Second, MaxHold: seconds(o.MaxHold),
		Metadata: o.Metadata,
	}
}

// Describe implements [conformancetest.Program].
func (program) Describe(err error) map[string]any {
	d := map[string]any{}
	e, coded := errors.AsType[*contracts.Error](err)
	switch {
	case coded:
		d["code"], d["field"], d["owner"], d["retry_after_ms"] = e.Code, e.Field, e.Owner, e.RetryAfter.Milliseconds()
	default:
		if code, ok := errors.AsType[contracts.Code](err); ok {
			d["code"] = code
		}
	}
	switch {
	case errors.Is(err, locks.ErrMaxHold):
		d["class"], d["code"] = "lost", "MAX_HOLD"
	case errors.Is(err, locks.ErrLost):
		d["class"] = "lost"
	case errors.Is(err, locks.ErrNotReleased):
		d["class"] = "not_released"
	case errors.Is(err, context.Canceled):
		d["class"] = "cancelled"
	case coded && (e.Code == contracts.CodeLockHeld || e.Code == contracts.CodeLockDelayed ||
		e.Code == contracts.CodeLockQueueFull):
		d["class"] = "held"
	case coded && strings.HasPrefix(e.Detail, "a name in a path"): // not sent
		d["class"] = "invalid"
	case coded && e.Status < 500 && !e.Retryable:
		d["class"] = "rejected"
	case errors.As(err, new(*conformancetest.WorkError)):
		d["class"] = "failed"
	default:
		d["class"] = "unavailable"
	}
	return d
}
