package cloudtaskstest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	pb "cloud.google.com/go/cloudtasks/apiv2/cloudtaskspb"
	rpc "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// maxAnswerBytes bounds what is kept of a response.
const maxAnswerBytes = 64 << 10

// run takes a task to its end.
func (s *Server) run(q *queue, id string, t *task) {
	var before Attempt // the delivery before, if there was one
	for {
		s.mu.Lock()
		p := t.pb
		s.mu.Unlock()
		if !s.sleep(time.Until(p.GetScheduleTime().AsTime())) || !s.turn(q) {
			return
		}
		a, acknowledged := s.deliver(p, before)
		if s.settle(q, id, t, p, a, acknowledged) {
			return
		}
		before = a
	}
}

// settle ends a delivery: the task is gone, or comes again later.
func (s *Server) settle(q *queue, id string, t *task, p *pb.Task, a Attempt, acknowledged bool) (gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q.inFlight--
	defer s.changedLocked()
	n := int(p.GetDispatchCount()) + 1
	if acknowledged || usedUp(q.pb.GetRetryConfig(), n, firstAttempt(p, a), a.End) {
		s.removeLocked(q, id)
		return true
	}
	t.pb = attempted(p, a, backoff(q.pb.GetRetryConfig(), n))
	return false
}

// firstAttempt is when a task was first delivered.
func firstAttempt(p *pb.Task, a Attempt) time.Time {
	if p.GetFirstAttempt() == nil {
		return a.Begin
	}
	return p.GetFirstAttempt().GetDispatchTime().AsTime()
}

// attempted is a task after a delivery that was not acknowledged.
func attempted(p *pb.Task, a Attempt, wait time.Duration) *pb.Task {
	n := proto.CloneOf(p)
	last := &pb.Attempt{ScheduleTime: p.GetScheduleTime(), DispatchTime: timestamppb.New(a.Begin)}
	n.DispatchCount++
	if a.Status != 0 {
		n.ResponseCount++
		last.ResponseTime = timestamppb.New(a.End)
		last.ResponseStatus = &rpc.Status{Code: int32(codes.Unknown), Message: fmt.Sprintf("HTTP %d", a.Status)}
	}
	n.LastAttempt = last
	if n.GetFirstAttempt() == nil {
		n.FirstAttempt = &pb.Attempt{ScheduleTime: last.GetScheduleTime(), DispatchTime: last.GetDispatchTime()}
	}
	n.ScheduleTime = timestamppb.New(a.End.Add(wait))
	return n
}

// sleep waits, and reports whether the server still runs.
func (s *Server) sleep(d time.Duration) bool {
	timer := time.NewTimer(max(0, d))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.life.Done():
		return false
	}
}

// turn waits until the queue lets a task through, and reports whether the server still runs.
func (s *Server) turn(q *queue) bool {
	for {
		s.mu.Lock()
		ok, wait := q.take(time.Now())
		changed := s.changed
		s.mu.Unlock()
		if ok {
			return true
		}
		var again <-chan time.Time
		if wait > 0 {
			again = time.After(wait)
		}
		select {
		case <-again:
		case <-changed:
		case <-s.life.Done():
			return false
		}
	}
}

// deliver is one delivery, or what a fault makes of it. The attempt is the one that decided.
func (s *Server) deliver(p *pb.Task, before Attempt) (a Attempt, acknowledged bool) {
	effect := s.hit(Dispatch, p)
	switch e := effect.(type) {
	case DeliverTwice:
		other := make(chan Attempt, 1)
		go func() { other <- s.send(p, before, nil) }()
		a = s.send(p, before, nil)
		if b := <-other; !a.acknowledges() {
			a = b
		}
	case LoseResponse:
		a = s.send(p, before, e)
	case DeliverAgain:
		if a = s.send(p, before, nil); a.acknowledges() {
			s.send(p, before, nil)
		}
	default:
		a = s.send(p, before, effect)
	}
	return a, a.acknowledges()
}

func (a Attempt) acknowledges() bool { return a.Status >= 200 && a.Status <= 299 }

// send is one request to the worker.
func (s *Server) send(p *pb.Task, before Attempt, effect Effect) Attempt {
	a := Attempt{Task: taskIDOf(p), RetryCount: int(p.GetDispatchCount()), ExecutionCount: int(p.GetResponseCount()),
		Begin: time.Now()}
	ctx, cancel := context.WithTimeout(s.life, p.GetDispatchDeadline().AsDuration())
	defer cancel()
	if e, ok := effect.(CutOff); ok {
		go func() {
			select {
			case <-e.When:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	a.Status, a.Response, a.Err = s.post(ctx, p, before, effect)
	if _, lost := effect.(LoseResponse); lost && a.Err == nil {
		a.Status, a.Response, a.Err = 0, "", fmt.Errorf("injected fault: the response %d was lost", a.Status)
	}
	a.End = time.Now()
	s.options.Log.InfoContext(ctx, "delivered", "task", a.Task, "retry", a.RetryCount, "status", a.Status, "took",
		a.End.Sub(a.Begin), "err", a.Err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[Dispatch]++
	s.attempts = append(s.attempts, a)
	s.changedLocked()
	return a
}

func (s *Server) post(ctx context.Context, p *pb.Task, before Attempt, effect Effect) (status int,
	response string, err error) {
	h := p.GetHttpRequest()
	r, err := http.NewRequestWithContext(ctx, h.GetHttpMethod().String(), h.GetUrl(), bytes.NewReader(h.GetBody()))
	if err != nil {
		return 0, "", err
	}
	for name, value := range h.GetHeaders() {
		if !reserved(name) {
			r.Header.Set(name, value)
		}
	}
	s.name(r.Header, p, before)
	if err := s.authenticate(r.Header, h, effect); err != nil {
		return 0, "", err
	}
	w, err := s.client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = w.Body.Close() }() // what was needed of it has been read
	body, err := io.ReadAll(io.LimitReader(w.Body, maxAnswerBytes))
	if err != nil {
		return 0, "", err
	}
	return w.StatusCode, string(body), nil
}

// reserved reports whether a header is the service's own business.
func reserved(name string) bool {
	name = strings.ToLower(name)
	for _, prefix := range []string{"x-cloudtasks-", "x-google-", "x-appengine-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return name == "host" || name == "content-length" || name == "user-agent"
}

// name sets the headers by which a worker knows the delivery.
func (s *Server) name(h http.Header, p *pb.Task, before Attempt) {
	queue, _, _ := strings.Cut(p.GetName(), "/tasks/")
	eta := p.GetScheduleTime().AsTime()
	for name, value := range map[string]string{
		"User-Agent":                      "Google-Cloud-Tasks",
		"X-Cloudtasks-Queuename":          queue[strings.LastIndexByte(queue, '/')+1:],
		"X-Cloudtasks-Taskname":           taskIDOf(p),
		"X-Cloudtasks-Taskretrycount":     strconv.Itoa(int(p.GetDispatchCount())),
		"X-Cloudtasks-Taskexecutioncount": strconv.Itoa(int(p.GetResponseCount())),
		"X-Cloudtasks-Tasketa":            fmt.Sprintf("%d.%06d", eta.Unix(), eta.Nanosecond()/1000),
	} {
		h.Set(name, value)
	}
	if before.Begin.IsZero() {
		return
	}
	if before.Status != 0 {
		h.Set("X-Cloudtasks-Taskpreviousresponse", strconv.Itoa(before.Status))
	}
	h.Set("X-Cloudtasks-Taskretryreason", cmp.Or(http.StatusText(before.Status), "no answer"))
}

// authenticate sets the token, if the task has one.
func (s *Server) authenticate(h http.Header, r *pb.HttpRequest, effect Effect) error {
	o := r.GetOidcToken()
	if _, none := effect.(NoToken); none || o == nil {
		return nil
	}
	var change func(map[string]any)
	if c, ok := effect.(ChangeToken); ok {
		change = c.Change
	}
	token, err := s.issuer.token(o.GetServiceAccountEmail(), cmp.Or(o.GetAudience(), r.GetUrl()), change)
	if err != nil {
		return err
	}
	h.Set("Authorization", "Bearer "+token)
	return nil
}
