package emf

import (
	"context"
	"io"
	"log/slog"
)

// Invoker is a lambda.Handler of aws-lambda-go.
type Invoker interface {
	Invoke(ctx context.Context, payload []byte) ([]byte, error)
}

// Handler writes what was measured after each invocation: an instance is frozen between them, and may never run again.
type Handler struct {
	Invoker

	Provider *Provider
	Out      io.Writer    // that Lambda takes the log from
	Log      *slog.Logger // errors
}

// Invoke implements lambda.Handler.
func (h Handler) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	defer func() {
		if err := h.Provider.Flush(context.WithoutCancel(ctx), h.Out); err != nil {
			h.Log.WarnContext(ctx, "cannot write metrics", "err", err)
		}
	}()
	return h.Invoker.Invoke(ctx, payload)
}
