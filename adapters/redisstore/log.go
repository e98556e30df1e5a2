package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	sdk "github.com/redis/go-redis/v9"
)

// SetLog sends what the Redis library has to say of its connections to a log, as warnings. The library has one log for
// all clients of the process, and without this writes to standard error; a main may call it, once.
//
// While a server is away the library says so with each try: the same line is written once in [sameLine].
func SetLog(log *slog.Logger) { sdk.SetLogger(&libraryLog{log: log}) }

// sameLine is the time in which the log has the same line once.
const sameLine = 10 * time.Second

type libraryLog struct {
	log *slog.Logger

	mu   sync.Mutex
	said string    // the latest line
	at   time.Time // when it was written
}

// Printf is the library's interface.
func (l *libraryLog) Printf(ctx context.Context, format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if l.again(line) {
		return
	}
	l.log.WarnContext(ctx, line)
}

// again reports whether a line was written just before.
func (l *libraryLog) again(line string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if line == l.said && time.Since(l.at) < sameLine {
		return true
	}
	l.said, l.at = line, time.Now()
	return false
}
