package kazahana

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"time"
)

// Options are the settings of [New]. The zero value works and is meant for production.
type Options struct {
	// ServiceID names the service whose machine IDs are leased; the provider maps it to a space and a layout. Empty is the
	// provider's default.
	ServiceID string

	// MaxThroughputPerMs is how many IDs a millisecond should be able to bear; 0 stands for 256: one lease of the default
	// layout. Leases are acquired until their throughputs add up to it. IDs beyond what the leases bear wait for the next
	// millisecond. Fallback IDs are bounded by it, too.
	MaxThroughputPerMs int64

	// DisableFallback makes NextID fail, with a [LeaseAcquisitionError], where it would make IDs without a lease.
	DisableFallback bool

	// AcquireRetryInterval bounds the wait after a first failure to acquire; 0 stands for 1 s. The bound doubles with each
	// failure in a row. The wait itself is random below the bound, so that processes that failed together do not come back
	// together.
	AcquireRetryInterval time.Duration

	// AcquireRetryMaxInterval is the largest such bound; 0 stands for 60 s.
	AcquireRetryMaxInterval time.Duration

	// MaxBackwardMs says what to do while the clock stands behind the last ID, in milliseconds. Up to that far, IDs use up the
	// last millisecond and then wait for the clock; beyond it they are refused with a [ClockBackwardError]. 0 refuses at once
	// (but for a single millisecond, which clocks that are slewed may lose), a negative number waits without limit, nil stands
	// for 5000. As a literal: MaxBackwardMs: new(int64(0)).
	MaxBackwardMs *int64

	// BitTs is the width of the timestamp as long as no lease has told it; 0 stands for 41.
	BitTs int

	// DefaultEpoch is the epoch as long as no lease has told it; the zero time stands for [DefaultEpoch]. Where the provider
	// uses another epoch, set the same here: IDs that were made before the first lease would not fit to it.
	DefaultEpoch time.Time

	// BurstWindow lets short bursts pass at once. IDs are stamped up to that much late, so that a burst finds the sequences
	// of the milliseconds before unused. Never is an ID stamped with a time that has not come. It is cut to milliseconds;
	// 0 stamps the present and makes the 257th ID of a millisecond wait.
	BurstWindow time.Duration

	// MaxSkew is how far a lease may begin before or after the local clock's time; 0 stands for 5 s. Leases that are further
	// off are refused, because one of the clocks is wrong.
	MaxSkew time.Duration

	// Meta are labels for people who look at the provider's table. Nil stands for the host's name and the process's ID.
	Meta map[string]string

	// Clock is where the time comes from; nil stands for the system's. Tests and simulations set it.
	Clock Clock

	// OnEvent hears of what operators want to know. It is called by the goroutine that met the event, which waits for it,
	// and from several at once. It must not call [Generator.Close].
	OnEvent func(Event)
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
	s.MaxThroughputPerMs = or(s.MaxThroughputPerMs, defaultThroughput)
	s.AcquireRetryInterval = or(s.AcquireRetryInterval, defaultRetryInterval)
	s.AcquireRetryMaxInterval = or(s.AcquireRetryMaxInterval, max(defaultRetryMax, s.AcquireRetryInterval))
	if s.AcquireRetryMaxInterval < s.AcquireRetryInterval {
		return s, fmt.Errorf("AcquireRetryMaxInterval %s: must be at least AcquireRetryInterval, %s",
			s.AcquireRetryMaxInterval, s.AcquireRetryInterval)
	}
	s.backward = defaultBackwardMs
	if s.MaxBackwardMs != nil {
		s.backward = *s.MaxBackwardMs
	}
	s.skew = or(s.MaxSkew, defaultSkew).Milliseconds()
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
		if host, err := os.Hostname(); err == nil {
			s.Meta["host"] = host
		}
	}
	return s, nil
}

// or is v, or if it is zero its default.
func or[T int | int64 | time.Duration](v, without T) T {
	if v == 0 {
		return without
	}
	return v
}
