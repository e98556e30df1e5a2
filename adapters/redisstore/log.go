package redisstore

import (
	"context"
	"fmt"
	"log/slog"

	sdk "github.com/redis/go-redis/v9"
)

// SetLog sends what the Redis library has to say of its connections to a log, as warnings. The library has one log for
// all clients of the process, and without this writes to standard error; a main may call it, once.
func SetLog(log *slog.Logger) { sdk.SetLogger(libraryLog{log}) }

type libraryLog struct{ log *slog.Logger }

// Printf is the library's interface.
func (l libraryLog) Printf(ctx context.Context, format string, args ...any) {
	l.log.WarnContext(ctx, fmt.Sprintf(format, args...))
}
