package cloudtaskstest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	sdk "cloud.google.com/go/cloudtasks/apiv2"
	pb "cloud.google.com/go/cloudtasks/apiv2/cloudtaskspb"

	"github.com/leasehold-dev/leasehold/emulator/cloudtaskstest"
)

// The official client makes a task, and the emulator delivers it; its first response gets lost. In a test, Start takes
// the place of Listen and Close.
func ExampleListen() {
	ctx := context.Background()
	const queue = "projects/demo/locations/local/queues/mail"
	s, err := cloudtaskstest.Listen("", &cloudtaskstest.Options{Queues: []string{queue}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = s.Close() }()
	s.Inject(cloudtaskstest.Fault{Method: cloudtaskstest.Dispatch, Times: 1, Effect: cloudtaskstest.LoseResponse{}})
	worker := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println("worker: retry", r.Header.Get("X-CloudTasks-TaskRetryCount"))
	}))
	defer worker.Close()

	client, err := sdk.NewClient(ctx, s.ClientOptions()...)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close() }()
	_, err = client.CreateTask(ctx, &pb.CreateTaskRequest{Parent: queue, Task: &pb.Task{
		MessageType: &pb.Task_HttpRequest{HttpRequest: &pb.HttpRequest{Url: worker.URL}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := s.Idle(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range s.Attempts() {
		fmt.Println("queue: status", a.Status)
	}
	// Output:
	// worker: retry 0
	// worker: retry 1
	// queue: status 0
	// queue: status 200
}
