package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/analysis"
)

const (
	delivered  = "invoice-42"
	deliveries = 5
	workTime   = 600 * time.Millisecond
	redelivery = 400 * time.Millisecond // of the queue, after any response but 2xx
)

// office is the work behind the gate: a server of its own, as a user's worker is. It counts for itself who runs.
type office struct {
	d    *play
	runs gauge
}

// ServeHTTP runs one analysis.
func (o *office) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	run := o.runs.enter()
	defer o.runs.leave()
	o.d.sayf("work", "run %d begins, with token %s", run, r.Header.Get(tasks.FenceHeader))
	pause(r.Context(), workTime)
	o.d.sayf("work", "done")
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"result":"sent to the customer"}`)) // a client that is gone needs no response
}

// deliver plays a queue that delivers one task five times at once, and again each delivery that was not acknowledged.
func (d *play) deliver(ctx context.Context) error {
	if _, err := d.analyses.Create(ctx, analysis.Create{ID: delivered}); err != nil {
		return err
	}
	var (
		all   sync.WaitGroup
		mu    sync.Mutex
		heard = map[contracts.TaskOutcome]int{}
		again int
		errs  []error
	)
	for i := range deliveries {
		all.Go(func() {
			who := fmt.Sprintf("queue %d", i+1)
			for try := 0; ; try++ {
				outcome, code, err := d.push(ctx, i, try)
				if err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
					return
				}
				mu.Lock()
				if code == "" {
					heard[outcome]++
				} else {
					again++
				}
				mu.Unlock()
				if code == "" {
					d.sayf(who, "→ 200 %s: the task is done", outcome)
					return
				}
				d.sayf(who, "→ %s: the queue will deliver it again", code)
				pause(ctx, redelivery)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	after, _, err := d.analyses.Get(ctx, delivered)
	if err != nil {
		return err
	}
	runs, most := d.office.runs.seen()
	d.check(runs == 1 && most == 1, "a task that is delivered five times runs once",
		"%d run, %d deliveries, %d of them told to retry", runs, deliveries+again, again)
	d.check(heard[contracts.TaskOutcome(once.Ready)] == 1 &&
		heard[contracts.TaskOutcome(once.AlreadyFinished)] == deliveries-1 &&
		after.Status == analysis.Ready && after.Result == "sent to the customer",
		"and every delivery learns that it is done", "the analysis is %s, %q", after.Status, after.Result)
	return nil
}

// push delivers the task once, as Cloud Tasks does. The code is empty if the response acknowledges it.
func (d *play) push(ctx context.Context, delivery, try int) (contracts.TaskOutcome, contracts.Code, error) {
	header := http.Header{}
	header.Set("X-CloudTasks-QueueName", "demo")
	header.Set("X-CloudTasks-TaskName", fmt.Sprint("task-", delivery))
	header.Set("X-CloudTasks-TaskRetryCount", strconv.Itoa(try))
	status, a, err := d.post(ctx, tasks.TaskPath, `{"analysisId":"`+delivered+`"}`, header)
	if err != nil {
		return "", "", err
	}
	if status == http.StatusOK {
		return a.Outcome, "", nil
	}
	return "", a.Code, nil
}
