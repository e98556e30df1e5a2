package kazahana

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Options are the settings of [New]. The zero value works and is meant for production.
type Options struct {
	// ServiceID names the service whose machine IDs are leased; the provider maps it to a namespace and a layout. Empty
	// means the provider's default.
	ServiceID string

	// MaxThroughputPerMs is how many IDs per millisecond are needed; 0 means 256: one lease of the default layout.
	// Leases are acquired until their throughputs add up to it. Further IDs wait for the next millisecond. It bounds
	// fallback IDs without a cached machine ID, too.
	MaxThroughputPerMs int64

	// DisableFallback makes NextID fail, with a [LeaseAcquisitionError], where it would make IDs without a lease.
	DisableFallback bool

	// AcquireRetryInterval bounds the wait after a first failure to acquire; 0 means 1 s. The bound doubles with each
	// failure in a row. The wait itself is random between half the bound and the bound, so that processes that failed
	// together do not retry together.
	AcquireRetryInterval time.Duration

	// AcquireRetryMaxInterval is the largest such bound; 0 means 60 s.
	AcquireRetryMaxInterval time.Duration

	// MaxBackwardMs is how far the clock may be behind the last ID, in milliseconds. Up to that limit, IDs use up the last
	// millisecond and then wait for the clock; beyond it they fail with a [ClockBackwardError]. 0 fails with the next call
	// (but for a single millisecond, which clocks that are slewed may lose): each call reads the wall clock then, which
	// otherwise is read once a second. A negative number waits without limit, nil means 5000. As a literal: MaxBackwardMs:
	// new(int64(0)).
	MaxBackwardMs *int64

	// BitTs is the width of the timestamp in bits until the first lease sets it; 0 means 41.
	BitTs int

	// DefaultEpoch is the epoch until the first lease sets it; the zero time means [DefaultEpoch]. If the provider uses
	// another epoch, set the same here: IDs made before the first lease would not match it.
	DefaultEpoch time.Time

	// BurstWindow lets short bursts pass at once: timestamps are up to that much in the past, so that a burst can use
	// the sequences of the milliseconds before. A timestamp is never in the future. The window is cut to milliseconds,
	// from 0 to one minute; with 0 the 257th ID of a millisecond waits.
	BurstWindow time.Duration

	// MaxSkew is how far a lease may begin before or after the local clock's time; 0 means 5 s. Leases further off are
	// rejected, because one of the clocks is wrong.
	MaxSkew time.Duration

	// Meta are labels for people who read the provider's log: at most MaxMeta, with keys of 1 to MaxMetaKeyBytes bytes and
	// values of up to MaxMetaValueBytes. Nil means the host's name and the process's ID.
	Meta map[string]string

	// Log gets a warning when the provider does not grant leases, and a line when it does again; nil means [slog.Default].
	Log *slog.Logger

	// Clock is the source of time; nil means the system's. Tests and simulations set it.
	Clock Clock

	// Observe receives what operators want to know. It is called synchronously, from several goroutines at once, and
	// must not call [Generator.Close].
	Observe func(Event)
}

// settings are Options with all defaults filled in.
type settings struct {
	Options
	backward int64 // ms; negative is without limit
	skew     int64 // ms
	window   uint64
	layout   Layout
}

const (
	defaultThroughput    = 256
	defaultBackwardMs    = 5000
	defaultSkew          = 5 * time.Second
	defaultRetryInterval = time.Second
	defaultRetryMax      = 60 * time.Second
	maxBurstWindow       = time.Minute
)

func (o *Options) settings() (settings, error) {
	var s settings
	if o != nil {
		s.Options = *o
	}
	switch {
	case s.MaxThroughputPerMs < 0:
		return s, fmt.Errorf("MaxThroughputPerMs %d: must not be negative", s.MaxThroughputPerMs)
	case s.AcquireRetryInterval < 0 || s.AcquireRetryMaxInterval < 0:
		return s, errors.New("AcquireRetryInterval and AcquireRetryMaxInterval must not be negative")
	case s.BurstWindow < 0 || s.BurstWindow > maxBurstWindow:
		return s, fmt.Errorf("BurstWindow %s: must be from 0 to %s", s.BurstWindow, maxBurstWindow)
	case s.MaxSkew < 0:
		return s, fmt.Errorf("MaxSkew %s: must not be negative", s.MaxSkew)
	case s.BitTs != 0 && (s.BitTs < 32 || s.BitTs > 60):
		return s, fmt.Errorf("BitTs %d: must be from 32 to 60", s.BitTs)
	}
	s.MaxThroughputPerMs = cmp.Or(s.MaxThroughputPerMs, defaultThroughput)
	s.AcquireRetryInterval = cmp.Or(s.AcquireRetryInterval, defaultRetryInterval)
	s.AcquireRetryMaxInterval = cmp.Or(s.AcquireRetryMaxInterval, max(defaultRetryMax, s.AcquireRetryInterval))
	if s.AcquireRetryMaxInterval < s.AcquireRetryInterval {
		return s, fmt.Errorf("AcquireRetryMaxInterval %s: must be at least AcquireRetryInterval, %s",
			s.AcquireRetryMaxInterval, s.AcquireRetryInterval)
	}
	s.backward = defaultBackwardMs
	if s.MaxBackwardMs != nil {
		s.backward = *s.MaxBackwardMs
	}
	s.skew = cmp.Or(s.MaxSkew, defaultSkew).Milliseconds()
	s.window = uint64(s.BurstWindow.Milliseconds()) //nolint:gosec // not negative
	s.layout = DefaultLayout()
	if !s.DefaultEpoch.IsZero() {
		s.layout.CustomEpoch = s.DefaultEpoch.UnixMilli()
	}
	if s.BitTs != 0 {
		s.layout.BitTs = s.BitTs
		node := 64 - s.layout.BitReserve - s.BitTs
		s.layout.BitSeq = min(s.layout.BitSeq, node-2)
		s.layout.BitID = node - s.layout.BitSeq
	}
	if err := s.layout.Validate(); err != nil {
		return s, fmt.Errorf("DefaultEpoch: %w", err)
	}
	if most := int64(1) << (s.layout.BitNode() - 1); s.MaxThroughputPerMs > most {
		return s, fmt.Errorf("MaxThroughputPerMs %d: a millisecond has %d IDs at most", s.MaxThroughputPerMs, most)
	}
	s.Meta = maps.Clone(s.Meta)
	if s.Meta == nil {
		s.Meta = map[string]string{"pid": strconv.Itoa(os.Getpid())}
		if host, err := os.Hostname(); err == nil && usable(host, MaxMetaValueBytes) {
			s.Meta["host"] = host
		}
	}
	if s.Log == nil {
		s.Log = slog.Default()
	}
	return s, checkMeta(s.Meta)
}

// Bounds of labels.
const (
	MaxMeta           = 32  // labels
	MaxMetaKeyBytes   = 64  // of UTF-8
	MaxMetaValueBytes = 512 // of UTF-8
)

// checkMeta rejects labels that a provider would reject.
func checkMeta(meta map[string]string) error {
	if len(meta) > MaxMeta {
		return fmt.Errorf("Meta has %d labels: at most %d", len(meta), MaxMeta)
	}
	for k, v := range meta {
		if k == "" || !usable(k, MaxMetaKeyBytes) {
			return fmt.Errorf("Meta has the key %.80q: must be 1 to %d bytes of UTF-8 without control characters",
				k, MaxMetaKeyBytes)
		}
		if !usable(v, MaxMetaValueBytes) {
			return fmt.Errorf("Meta[%q] must be at most %d bytes of UTF-8 without control characters", k, MaxMetaValueBytes)
		}
	}
	return nil
}

func usable(text string, most int) bool {
	return len(text) <= most && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}
