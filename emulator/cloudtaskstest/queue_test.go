package cloudtaskstest

import (
	"slices"
	"testing"
	"time"

	pb "cloud.google.com/go/cloudtasks/apiv2/cloudtaskspb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// TestBackoff has the example of the service's documentation of max_doublings.
func TestBackoff(t *testing.T) {
	c := &pb.RetryConfig{MinBackoff: durationpb.New(10 * time.Second), MaxBackoff: durationpb.New(300 * time.Second),
		MaxDoublings: 3}
	var got []time.Duration
	for n := 1; n <= 8; n++ {
		got = append(got, backoff(c, n)/time.Second)
	}
	if want := []time.Duration{10, 20, 40, 80, 160, 240, 300, 300}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if d := backoff(&pb.RetryConfig{MinBackoff: c.GetMinBackoff(), MaxBackoff: durationpb.New(time.Hour),
		MaxDoublings: 1 << 30}, 1<<30); d != time.Hour {
		t.Errorf("after very many: %v", d)
	}
}

func TestUsedUp(t *testing.T) {
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name     string
		attempts int32
		duration time.Duration
		n        int
		after    time.Duration
		want     bool
	}{
		{"attempts left", 3, 0, 2, time.Hour, false},
		{"no attempts left", 3, 0, 3, 0, true},
		{"attempts without end", -1, 0, 1000, time.Hour, false},
		{"time left", -1, time.Minute, 1000, 59 * time.Second, false},
		{"no time left", -1, time.Minute, 1, time.Minute, true},
		{"both, one of them reached", 3, time.Minute, 3, time.Second, false},
		{"both, the other reached", 3, time.Minute, 2, time.Hour, false},
		{"both reached", 3, time.Minute, 3, time.Minute, true},
	} {
		config := &pb.RetryConfig{MaxAttempts: c.attempts, MaxRetryDuration: durationpb.New(c.duration)}
		if got := usedUp(config, c.n, begun, begun.Add(c.after)); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestRate: a burst, and then one turn after the other.
func TestRate(t *testing.T) {
	q, err := newQueue(&pb.Queue{Name: "projects/p/locations/l/queues/q",
		RateLimits: &pb.RateLimits{MaxDispatchesPerSecond: 10}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	turns := func(at time.Time) (n int, wait time.Duration) {
		for {
			ok, wait := q.take(at)
			if !ok {
				return n, wait
			}
			n++
		}
	}
	for _, c := range []struct {
		after time.Duration
		turns int
		wait  time.Duration
	}{
		{0, 2, 100 * time.Millisecond},
		{50 * time.Millisecond, 0, 50 * time.Millisecond},
		{100 * time.Millisecond, 1, 100 * time.Millisecond},
		{time.Hour, 2, 100 * time.Millisecond},
	} {
		if n, wait := turns(now.Add(c.after)); n != c.turns || wait.Round(time.Millisecond) != c.wait {
			t.Errorf("after %v: %d turns, then %v; want %d, %v", c.after, n, wait, c.turns, c.wait)
		}
	}
}
