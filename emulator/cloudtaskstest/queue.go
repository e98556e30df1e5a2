package cloudtaskstest

import (
	"math"
	"regexp"
	"time"

	pb "cloud.google.com/go/cloudtasks/apiv2/cloudtaskspb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// queue is a queue with its tasks. It is guarded by Server.mu.
type queue struct {
	pb       *pb.Queue // complete: every setting has its value
	tasks    map[string]*task
	used     map[string]bool // names of tasks that are gone
	inFlight int
	tokens   float64 // deliveries that the rate allows at the time filled
	filled   time.Time
}

// task is a task that is not gone.
type task struct {
	pb *pb.Task // complete; replaced, never changed
}

var (
	locationName = regexp.MustCompile(`^projects/[^/ ]+/locations/[^/ ]+$`)
	queueName    = regexp.MustCompile(`^projects/[^/ ]+/locations/[^/ ]+/queues/[A-Za-z0-9-]{1,100}$`)
	taskID       = regexp.MustCompile(`^[A-Za-z0-9_-]{1,500}$`)
)

// newQueue completes a queue as the service does.
func newQueue(q *pb.Queue) (*queue, error) {
	if !queueName.MatchString(q.GetName()) {
		return nil, status.Errorf(codes.InvalidArgument,
			"Queue.name %q must be projects/PROJECT/locations/LOCATION/queues/QUEUE", q.GetName())
	}
	switch {
	case q.GetAppEngineRoutingOverride() != nil:
		return nil, unsupported("Queue.app_engine_routing_override")
	case q.GetHttpTarget() != nil:
		return nil, unsupported("Queue.http_target")
	case q.GetStackdriverLoggingConfig() != nil:
		return nil, unsupported("Queue.stackdriver_logging_config")
	case q.GetRateLimits().GetMaxBurstSize() != 0:
		return nil, status.Error(codes.InvalidArgument, "Queue.rate_limits.max_burst_size is output only")
	case q.GetState() != pb.Queue_STATE_UNSPECIFIED || q.GetPurgeTime() != nil:
		return nil, status.Error(codes.InvalidArgument, "Queue.state and Queue.purge_time are output only")
	}
	c := proto.CloneOf(q)
	c.State = pb.Queue_RUNNING
	rates, retries := c.GetRateLimits(), c.GetRetryConfig()
	if rates == nil {
		rates = &pb.RateLimits{}
	}
	if retries == nil {
		retries = &pb.RetryConfig{}
	}
	c.RateLimits, c.RetryConfig = rates, retries
	rates.MaxDispatchesPerSecond = or(rates.GetMaxDispatchesPerSecond(), 500)
	rates.MaxConcurrentDispatches = or(rates.GetMaxConcurrentDispatches(), 1000)
	retries.MaxAttempts = or(retries.GetMaxAttempts(), 100)
	retries.MaxDoublings = or(retries.GetMaxDoublings(), 16)
	if retries.GetMinBackoff() == nil {
		retries.MinBackoff = durationpb.New(100 * time.Millisecond)
	}
	if retries.GetMaxBackoff() == nil {
		retries.MaxBackoff = durationpb.New(time.Hour)
	}
	lowest, highest := retries.GetMinBackoff().AsDuration(), retries.GetMaxBackoff().AsDuration()
	switch {
	case rates.GetMaxDispatchesPerSecond() < 0 || rates.GetMaxDispatchesPerSecond() > 500:
		return nil, status.Error(codes.InvalidArgument, "RateLimits.max_dispatches_per_second must be from 0 to 500")
	case rates.GetMaxConcurrentDispatches() < 0 || rates.GetMaxConcurrentDispatches() > 5000:
		return nil, status.Error(codes.InvalidArgument, "RateLimits.max_concurrent_dispatches must be from 0 to 5000")
	case retries.GetMaxAttempts() < -1:
		return nil, status.Error(codes.InvalidArgument, "RetryConfig.max_attempts must be -1 or more")
	case lowest <= 0 || highest < lowest:
		return nil, status.Error(codes.InvalidArgument, "RetryConfig.min_backoff must be above 0 and at most max_backoff")
	case retries.GetMaxDoublings() < 0 || retries.GetMaxRetryDuration().AsDuration() < 0:
		return nil, status.Error(codes.InvalidArgument, "RetryConfig has a negative bound")
	}
	// The service says that it computes the burst from the rate, not how.
	rates.MaxBurstSize = int32(max(1, math.Ceil(rates.GetMaxDispatchesPerSecond()/5)))
	return &queue{pb: c, tasks: make(map[string]*task), used: make(map[string]bool),
		tokens: float64(rates.GetMaxBurstSize())}, nil
}

func or[T comparable](v, other T) T {
	var zero T
	if v == zero {
		return other
	}
	return v
}

func unsupported(field string) error {
	return status.Errorf(codes.Unimplemented, "cloud tasks emulator: %s is not emulated", field)
}

// take gives a task its turn. If there is none, wait is the time after which there may be one, as far as that is known;
// 0: when something changes.
func (q *queue) take(now time.Time) (ok bool, wait time.Duration) {
	limits := q.pb.GetRateLimits()
	if q.pb.GetState() != pb.Queue_RUNNING || q.inFlight >= int(limits.GetMaxConcurrentDispatches()) {
		return false, 0
	}
	rate := limits.GetMaxDispatchesPerSecond()
	if !q.filled.IsZero() {
		q.tokens = min(float64(limits.GetMaxBurstSize()), q.tokens+rate*now.Sub(q.filled).Seconds())
	}
	q.filled = now
	if q.tokens < 1 {
		return false, max(time.Millisecond, time.Duration((1-q.tokens)/rate*float64(time.Second)))
	}
	q.tokens--
	q.inFlight++
	return true, 0
}

// backoff is the time between the end of the n-th delivery (from 1) and the next: doubled max_doublings times, then
// growing by the last step.
func backoff(c *pb.RetryConfig, n int) time.Duration {
	lowest, highest := c.GetMinBackoff().AsDuration(), c.GetMaxBackoff().AsDuration()
	doublings := min(n-1, int(c.GetMaxDoublings()))
	d := float64(lowest) * math.Pow(2, float64(doublings))
	if more := n - 1 - doublings; more > 0 {
		d += d * float64(more)
	}
	return time.Duration(min(d, float64(highest)))
}

// usedUp reports whether a task that failed n times, first at the time begun, is given up: when both bounds are
// reached, as far as they are set.
func usedUp(c *pb.RetryConfig, n int, begun, now time.Time) bool {
	attempts, duration := int(c.GetMaxAttempts()), c.GetMaxRetryDuration().AsDuration()
	switch {
	case attempts == -1 && duration == 0:
		return false
	case attempts == -1:
		return now.Sub(begun) >= duration
	default:
		return n >= attempts && now.Sub(begun) >= duration
	}
}
