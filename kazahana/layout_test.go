package kazahana_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
)

func TestLayout(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*kazahana.Layout)
		wrong  string
	}{
		{"default", func(*kazahana.Layout) {}, ""},
		{"epoch of Unix", func(l *kazahana.Layout) { l.CustomEpoch = 0 }, ""},
		{"139 years", func(l *kazahana.Layout) { l.BitTs, l.BitID = 42, 13 }, ""},
		{"epoch before 1970", func(l *kazahana.Layout) { l.CustomEpoch = -1 }, "customEpoch"},
		{"epoch in microseconds", func(l *kazahana.Layout) { l.CustomEpoch *= 1000 }, "customEpoch"},
		{"no reserve", func(l *kazahana.Layout) { l.BitReserve, l.BitTs = 0, 42 }, "bitReserve"},
		{"two months", func(l *kazahana.Layout) { l.BitTs, l.BitID = 31, 24 }, "bitTs"},
		{"one machine", func(l *kazahana.Layout) { l.BitID, l.BitSeq = 1, 21 }, "bitId"},
		{"one ID", func(l *kazahana.Layout) { l.BitID, l.BitSeq = 22, 0 }, "bitSeq"},
		{"63 bits", func(l *kazahana.Layout) { l.BitSeq = 7 }, "must be 64, not 63"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := kazahana.DefaultLayout()
			c.change(&l)
			err := l.Validate()
			if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%v, want %q", err, c.wrong)
			}
		})
	}
	l := kazahana.DefaultLayout()
	if !l.End().Equal(time.Date(2095, 9, 7, 15, 47, 35, 552_000_000, time.UTC)) || l.MaxMachineID() != 8191 ||
		l.Throughput() != 256 {
		t.Errorf("%v %d %d", l.End(), l.MaxMachineID(), l.Throughput())
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	cause := errors.New("connection refused")
	for err, want := range map[error]string{
		&kazahana.ClockBackwardError{BackwardMs: 7000, LimitMs: 5000}: "backward by 7000 ms (limit: 5000 ms): check NTP",
		&kazahana.LeaseAcquisitionError{Cause: cause}:                 "fallback is disabled: connection refused",
		&kazahana.NoProviderError{}:                                   "no lease provider is configured and fallback is disabled",
		&kazahana.ExhaustedError{RetryAfter: 1500 * time.Millisecond}: "becomes free in 1.5s",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q, want %q", err, want)
		}
	}
	if !errors.Is(&kazahana.LeaseAcquisitionError{Cause: cause}, cause) {
		t.Error("the cause is lost")
	}
}

func TestEventKindsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for k := kazahana.EventAcquired; k <= kazahana.EventEpochChanged; k++ {
		if s := k.String(); seen[s] || strings.HasPrefix(s, "event ") {
			t.Errorf("kind %d is %q", int(k), s)
		} else {
			seen[s] = true
		}
	}
	if s := (kazahana.EventEpochChanged + 1).String(); s != "event 11" {
		t.Errorf("an unknown kind is %q", s)
	}
}
