package redisstore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	sdk "github.com/redis/go-redis/v9"
)

// stuck keeps commands on their way until it is closed.
type stuck chan struct{}

func (s stuck) DialHook(next sdk.DialHook) sdk.DialHook { return next }

func (s stuck) ProcessHook(sdk.ProcessHook) sdk.ProcessHook {
	return func(context.Context, sdk.Cmder) error { <-s; return nil }
}

func (s stuck) ProcessPipelineHook(sdk.ProcessPipelineHook) sdk.ProcessPipelineHook {
	return func(context.Context, []sdk.Cmder) error { <-s; return nil }
}

// TestLeavesAtOnce: a caller that leaves does not wait for the response to its request, whether that is sent alone or
// with those of others.
func TestLeavesAtOnce(t *testing.T) {
	for name, of := range map[string]func(c *sdk.Client) sender{
		"alone":       func(c *sdk.Client) sender { return (&Store{client: c}).alone },
		"with others": func(c *sdk.Client) sender { return (&line{client: c}).send },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hook := make(stuck)
				c := sdk.NewClient(&sdk.Options{Addr: "127.0.0.1:0"}) // the hook sends nothing
				c.AddHook(hook)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				var err error
				left := false
				go func() {
					_, err = of(c)(ctx, []any{"PING"})
					left = true
				}()
				if synctest.Wait(); left {
					t.Fatalf("it did not wait for a response: %v", err)
				}
				leave()
				if synctest.Wait(); !left || !errors.Is(err, context.Canceled) {
					t.Errorf("left: %v, %v", left, err)
				}
				close(hook)
				synctest.Wait()
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
