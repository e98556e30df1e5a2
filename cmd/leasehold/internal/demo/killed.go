package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/analysis"
)

const (
	killed    = "video-7"
	workerTTL = 2 * time.Second
	steps     = 6
	half      = steps / 2
	stepTime  = 250 * time.Millisecond
)

// message is what a worker process says of itself, one JSON object a line.
type message struct {
	Event      string    `json:"event"` // began, step, busy, lost, ended
	Token      int64     `json:"token,omitempty"`
	Owner      string    `json:"owner,omitempty"`
	Ends       time.Time `json:"ends,omitzero"` // of the lock, when it was granted
	Step       int       `json:"step,omitempty"`
	RetryAfter string    `json:"retry_after,omitempty"`
	Status     string    `json:"status,omitempty"`
}

// analyse is a worker process of a scene: it runs one analysis under the gate of a server, waiting as long as another
// worker does, and tells out what happens. When half of its work is done it waits until in ends, so that the scene can
// kill it there, however slow the machine is.
func analyse(ctx context.Context, server, id, owner string, in io.Reader, out io.Writer) error {
	c, err := client.New(server, nil)
	if err != nil {
		return err
	}
	gate := c.Analyses()
	tell := json.NewEncoder(out)
	goOn := input(in, nil)
	for {
		o, err := once.Run(ctx, gate, id, func(ctx context.Context, l once.Lock) (string, error) {
			if err := tell.Encode(message{Event: "began", Token: l.Token, Owner: l.Owner, Ends: l.ExpiresAt}); err != nil {
				return "", err
			}
			for i := range steps {
				pause(ctx, stepTime)
				if err := errors.Join(ctx.Err(), tell.Encode(message{Event: "step", Step: i + 1, Token: l.Token})); err != nil {
					return "", err
				}
				if i+1 == half {
					select {
					case <-goOn:
					case <-ctx.Done():
					}
				}
			}
			return "made by " + owner, nil
		}, &once.Options{Owner: owner, TTL: workerTTL})
		if err != nil {
			return err
		}
		said := message{Event: "ended", Status: string(o.Status), Token: o.Token}
		switch o.Status {
		case once.Locked:
			said = message{Event: "busy", RetryAfter: o.RetryAfter.Round(time.Millisecond).String()}
		case once.Lost: // this machine is too busy to renew the lock in time
			said = message{Event: "lost"}
		default:
		}
		if err := tell.Encode(said); err != nil || said.Event == "ended" {
			return err
		}
		pause(ctx, o.RetryAfter+time.Millisecond)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// runner is such a worker process as the scene sees it.
type runner struct {
	*child

	events chan message // closed when the process has ended
}

// hire starts a worker process, which waits at half of its work until its input ends. It ends with ctx at the latest.
func (d *play) hire(ctx context.Context, owner string) (w *runner, err error) {
	w = &runner{events: make(chan message)}
	told := func(line []byte) {
		var e message
		if json.Unmarshal(line, &e) != nil {
			return // not a message: the parent has nothing to learn from it
		}
		select {
		case w.events <- e:
		case <-ctx.Done():
		}
	}
	w.child, err = startChild(d.executable, owner, d.url, []string{"--worker-analysis", killed}, told,
		func() { close(w.events) })
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, w.kill)
	return w, nil
}

// kill kills a worker with SIGKILL in the middle of its work. Another takes over when the lock has run out, and what
// the dead one might still send is refused.
func (d *play) kill(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // no worker outlives the scene
	if _, err := d.analyses.Create(ctx, analysis.Create{ID: killed}); err != nil {
		return err
	}
	first, err := d.hire(ctx, "worker-a")
	if err != nil {
		return err
	}
	var dead message
	for e := range first.events {
		d.report("worker-a", e)
		if e.Event == "began" {
			dead = e
		}
		if e.Step == half {
			break
		}
	}
	if dead.Token == 0 {
		return errors.New("worker-a ended before it began")
	}
	first.kill()
	d.sayf("demo", "kill -9 %d: worker-a is dead, half of its work is done, and it holds the lock", first.pid)
	for range first.events { // until the process is gone
	}
	left, _, err := d.analyses.Get(ctx, killed)
	if err != nil {
		return err
	}
	held, _ := left.ExpiresAt()

	second, err := d.hire(ctx, "worker-b")
	if err != nil {
		return err
	}
	second.endInput() // it does all of its work
	var (
		heir  message
		began time.Time
		ended string
	)
	for e := range second.events {
		d.report("worker-b", e)
		switch e.Event {
		case "began":
			heir, began = e, time.Now()
		case "ended":
			ended = e.Status
		default: // steps, and waiting
		}
	}
	body := fmt.Sprintf(`{"owner_id":%s,"fencing_token":%d,"status":"FAILED","failure_reason":"a late message"}`,
		strconv.Quote(dead.Owner), dead.Token)
	status, p, err := d.post(ctx, "/v1/analyses/"+killed+"/finish", body, nil)
	if err != nil {
		return err
	}
	d.sayf("worker-a", "a late finish with token %d → %d %s", dead.Token, status, orOK(p.Code))
	after, _, err := d.analyses.Get(ctx, killed)
	if err != nil {
		return err
	}
	d.check(ended == string(once.Ready) && heir.Token > dead.Token && after.Status == analysis.Ready &&
		after.Result == "made by worker-b",
		"a dead worker's run is taken over", "worker-b ran it with token %d after token %d: %s, %q", heir.Token, dead.Token,
		after.Status, after.Result)
	d.check(!began.IsZero() && !began.Before(held), "and not before its lock has run out",
		"the lock ended at %s, the second run began at %s", held.Format(clock), began.UTC().Format(clock))
	d.check(status == http.StatusConflict && after.Status == analysis.Ready,
		"what the dead one still sends changes nothing",
		"%d %s, and the analysis is %s", status, orOK(p.Code), after.Status)
	return nil
}

const clock = "15:04:05.000"

func (d *play) report(who string, e message) {
	switch e.Event {
	case "began":
		d.sayf(who, "lock → token %d; the work begins", e.Token)
	case "step":
		d.sayf(who, "step %d of %d", e.Step, steps)
	case "busy":
		d.sayf(who, "locked: another worker runs it; retry in %s", e.RetryAfter)
	case "lost":
		d.sayf(who, "the lock could not be renewed in time, on a busy machine: the work is dropped, and begins again")
	case "ended":
		d.sayf(who, "finish → %s", e.Status)
	}
}
