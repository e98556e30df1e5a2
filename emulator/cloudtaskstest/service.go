package cloudtaskstest

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	pb "cloud.google.com/go/cloudtasks/apiv2/cloudtaskspb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leasehold-dev/leasehold/emulator/internal/loopback"
)

// Bounds of tasks, the service's.
const (
	maxTaskBytes     = 100 << 10
	minDeadline      = 15 * time.Second
	maxDeadline      = 30 * time.Minute
	defaultDeadline  = 10 * time.Minute
	maxScheduleAhead = 30 * 24 * time.Hour
)

// service is the gRPC API. What it does not have is UNIMPLEMENTED, by name.
type service struct {
	pb.UnimplementedCloudTasksServer

	server *Server
}

// queueLocked finds a queue.
func (s *service) queueLocked(name string) (*queue, error) {
	if q := s.server.queues[name]; q != nil {
		return q, nil
	}
	if !queueName.MatchString(name) {
		return nil, status.Errorf(codes.InvalidArgument,
			"%q is not the name of a queue: projects/PROJECT/locations/LOCATION/queues/QUEUE", name)
	}
	return nil, status.Errorf(codes.NotFound, "Queue %s does not exist: create it first", name)
}

// CreateQueue makes a queue that runs.
func (s *service) CreateQueue(_ context.Context, r *pb.CreateQueueRequest) (*pb.Queue, error) {
	name := r.GetQueue().GetName()
	if !locationName.MatchString(r.GetParent()) || !strings.HasPrefix(name, r.GetParent()+"/queues/") {
		return nil, status.Errorf(codes.InvalidArgument, "Queue.name %q must lie in the parent %q", name, r.GetParent())
	}
	q, err := newQueue(r.GetQueue())
	if err != nil {
		return nil, err
	}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if s.server.queues[name] != nil {
		return nil, status.Errorf(codes.AlreadyExists, "Queue %s already exists", name)
	}
	s.server.queues[name] = q
	return q.pb, nil
}

// GetQueue returns a queue.
func (s *service) GetQueue(_ context.Context, r *pb.GetQueueRequest) (*pb.Queue, error) {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	q, err := s.queueLocked(r.GetName())
	if err != nil {
		return nil, err
	}
	return q.pb, nil
}

// PauseQueue stops deliveries for good; those under way go on.
func (s *service) PauseQueue(_ context.Context, r *pb.PauseQueueRequest) (*pb.Queue, error) {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	q, err := s.queueLocked(r.GetName())
	if err != nil {
		return nil, err
	}
	q.pb = proto.CloneOf(q.pb) // the one before may be on its way to a client
	q.pb.State = pb.Queue_PAUSED
	s.server.changedLocked()
	return q.pb, nil
}

// CreateTask adds a task, whose delivery begins at its schedule time.
func (s *service) CreateTask(_ context.Context, r *pb.CreateTaskRequest) (*pb.Task, error) {
	if err := s.server.checkTask(r.GetTask(), time.Now()); err != nil {
		return nil, err
	}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	q, err := s.queueLocked(r.GetParent())
	if err != nil {
		return nil, err
	}
	p, err := s.completeLocked(q, r.GetTask())
	if err != nil {
		return nil, err
	}
	id := p.GetName()[len(r.GetParent()+"/tasks/"):]
	if q.tasks[id] != nil || q.used[id] {
		return nil, status.Errorf(codes.AlreadyExists, "The task %s exists, or existed recently", p.GetName())
	}
	if s.server.life.Err() != nil {
		return nil, status.Error(codes.Unavailable, "cloud tasks emulator: closed")
	}
	t := &task{pb: p}
	q.tasks[id] = t
	s.server.running.Go(func() { s.server.run(q, id, t) })
	return view(p, r.GetResponseView()), nil
}

// checkTask rejects what the service rejects, and what the emulator has not.
func (s *Server) checkTask(t *pb.Task, now time.Time) error {
	r := t.GetHttpRequest()
	switch {
	case t.GetAppEngineHttpRequest() != nil:
		return unsupported("Task.app_engine_http_request")
	case t.GetRetryConfig() != nil:
		return unsupported("Task.retry_config")
	case r.GetOauthToken() != nil:
		return unsupported("HttpRequest.oauth_token")
	case r == nil:
		return status.Error(codes.InvalidArgument, "Task.http_request is required")
	case proto.Size(t) > maxTaskBytes:
		return status.Errorf(codes.InvalidArgument, "Task size too large: %d bytes, %d at most", proto.Size(t), maxTaskBytes)
	}
	u, err := url.Parse(r.GetUrl())
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return status.Errorf(codes.InvalidArgument, "HttpRequest.url %q must begin with http:// or https://", r.GetUrl())
	}
	if !s.options.InsecureListenAnywhere && !loopback.IsHost(u.Hostname()) {
		return status.Errorf(codes.InvalidArgument, "cloud tasks emulator: HttpRequest.url %q is not on this machine: "+
			"the emulator delivers elsewhere only with Options.InsecureListenAnywhere", r.GetUrl())
	}
	switch m := r.GetHttpMethod(); {
	case pb.HttpMethod_name[int32(m)] == "":
		return status.Errorf(codes.InvalidArgument, "HttpRequest.http_method %d is unknown", m)
	case len(r.GetBody()) > 0 && m != pb.HttpMethod_HTTP_METHOD_UNSPECIFIED && m != pb.HttpMethod_POST &&
		m != pb.HttpMethod_PUT && m != pb.HttpMethod_PATCH:
		return status.Errorf(codes.InvalidArgument, "HttpRequest.body is not allowed with %v", m)
	case r.GetOidcToken() != nil && !strings.Contains(r.GetOidcToken().GetServiceAccountEmail(), "@"):
		return status.Error(codes.InvalidArgument, "OidcToken.service_account_email must be an email address")
	}
	if d := t.GetDispatchDeadline(); d != nil && (d.AsDuration() < minDeadline || d.AsDuration() > maxDeadline) {
		return status.Errorf(codes.InvalidArgument, "Task.dispatchDeadline must be between [%v, %v]",
			minDeadline, maxDeadline)
	}
	if t.GetScheduleTime().AsTime().Sub(now) > maxScheduleAhead {
		return status.Error(codes.InvalidArgument, "Task.schedule_time is more than 30 days ahead")
	}
	return nil
}

// completeLocked is the task as the service keeps it.
func (s *service) completeLocked(q *queue, t *pb.Task) (*pb.Task, error) {
	t = proto.CloneOf(t)
	prefix := q.pb.GetName() + "/tasks/"
	if t.GetName() == "" {
		s.server.lastID++
		t.Name = fmt.Sprintf("%s%d", prefix, 1_000_000_000+s.server.lastID)
	}
	if id, ok := strings.CutPrefix(t.GetName(), prefix); !ok || !taskID.MatchString(id) {
		return nil, status.Errorf(codes.InvalidArgument,
			"Task.name %q must be %sTASK, of up to 500 letters, digits, '-' and '_'", t.GetName(), prefix)
	}
	now := timestamppb.Now()
	t.CreateTime = now
	if t.GetScheduleTime() == nil || t.GetScheduleTime().AsTime().Before(now.AsTime()) {
		t.ScheduleTime = now
	}
	if t.GetDispatchDeadline() == nil {
		t.DispatchDeadline = durationpb.New(defaultDeadline)
	}
	if r := t.GetHttpRequest(); r.GetHttpMethod() == pb.HttpMethod_HTTP_METHOD_UNSPECIFIED {
		r.HttpMethod = pb.HttpMethod_POST
	}
	t.DispatchCount, t.ResponseCount, t.FirstAttempt, t.LastAttempt = 0, 0, nil, nil
	return t, nil
}

// view is a task as it is shown: without its body unless everything is asked for.
func view(t *pb.Task, v pb.Task_View) *pb.Task {
	t = proto.CloneOf(t)
	if v == pb.Task_FULL {
		t.View = pb.Task_FULL
		return t
	}
	t.View = pb.Task_BASIC
	t.GetHttpRequest().Body = nil
	return t
}

// removeLocked ends a task. Its name stays taken.
func (s *Server) removeLocked(q *queue, id string) {
	delete(q.tasks, id)
	q.used[id] = true
	s.changedLocked()
}

// ListTasks lists all tasks that are not gone, by name, on one page.
func (s *service) ListTasks(_ context.Context, r *pb.ListTasksRequest) (*pb.ListTasksResponse, error) {
	if r.GetPageToken() != "" {
		return nil, unsupported("ListTasksRequest.page_token")
	}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	q, err := s.queueLocked(r.GetParent())
	if err != nil {
		return nil, err
	}
	var tasks []*pb.Task
	for _, id := range slices.Sorted(maps.Keys(q.tasks)) {
		tasks = append(tasks, view(q.tasks[id].pb, r.GetResponseView()))
	}
	return &pb.ListTasksResponse{Tasks: tasks}, nil
}

// taskIDOf is the last part of a task's name.
func taskIDOf(t *pb.Task) string { return t.GetName()[strings.LastIndexByte(t.GetName(), '/')+1:] }
