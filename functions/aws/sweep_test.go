package aws_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/functions/aws"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// queue keeps the names of analyses, or fails.
type queue struct {
	ids   []analysis.ID
	fails error
}

// Enqueue implements [analysis.Queue].
func (q *queue) Enqueue(_ context.Context, id analysis.ID, _ string) error {
	if q.fails != nil {
		return q.fails
	}
	q.ids = append(q.ids, id)
	return nil
}

func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := docstore.NewMemory(nil)
		for id, left := range map[string]time.Duration{"stale": -time.Minute, "running": time.Minute} {
			_, err := store.Write(t.Context(), docstore.Write{Key: docstore.Key{Kind: analysis.Kind, ID: id}, Set: docstore.Doc{
				"lockOwner": docstore.String("w"), "lockExpiresAt": docstore.FormatTime(time.Now().Add(left)),
				"lockToken": docstore.Int(1),
			}})
			if err != nil {
				t.Fatal(err)
			}
		}
		var log bytes.Buffer
		q := &queue{fails: errors.New("the queue is away")}
		s, err := aws.NewSweeper(analysis.New(store, nil), analysis.Sweep{Queue: q}, nil,
			slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Invoke(t.Context(), file(t, "schedule.json")); err == nil ||
			!strings.Contains(err.Error(), "the queue is away") {
			t.Errorf("without a queue: %v", err)
		}
		q.fails = nil
		for _, want := range []string{"stale=1 requeued=1 failed=0 skipped=0", "stale=1 requeued=0 failed=0 skipped=1"} {
			log.Reset()
			if _, err := s.Invoke(t.Context(), file(t, "schedule.json")); err != nil || !strings.Contains(log.String(), want) {
				t.Errorf("%v, %s", err, log.String())
			}
		}
		if got := fmt.Sprint(q.ids); got != "[stale]" {
			t.Errorf("queued %s", got)
		}
		for _, name := range []string{"sqs.json", "sns.json", "apigw_jwt.json", "not_json.txt"} {
			if _, err := s.Invoke(t.Context(), file(t, name)); err == nil || !strings.Contains(err.Error(), "schedule") {
				t.Errorf("%s: %v", name, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 0)
		defer cancel()
		if _, err := s.Invoke(ctx, file(t, "schedule.json")); err == nil {
			t.Error("a sweep without time succeeded")
		}
	})
	// Documents that cannot be read: it succeeds and says which, and fails for what fails beside them.
	synctest.Test(t, func(t *testing.T) {
		store := docstore.NewMemory(nil)
		for id, token := range map[string]docstore.Value{"bad": docstore.String("x"), "stale": docstore.Int(1)} {
			_, err := store.Write(t.Context(), docstore.Write{Key: docstore.Key{Kind: analysis.Kind, ID: id}, Set: docstore.Doc{
				"lockOwner": docstore.String("w"), "lockExpiresAt": docstore.FormatTime(time.Now().Add(-time.Minute)),
				"lockToken": token,
			}})
			if err != nil {
				t.Fatal(err)
			}
		}
		q := &queue{fails: errors.New("the queue is away")}
		s, err := aws.NewSweeper(analysis.New(store, nil), analysis.Sweep{Queue: q}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Invoke(t.Context(), file(t, "schedule.json")); err == nil ||
			!strings.Contains(err.Error(), "the queue is away") || strings.Contains(err.Error(), "bad") {
			t.Errorf("without a queue: %v", err)
		}
		q.fails = nil
		got, err := s.Invoke(t.Context(), file(t, "schedule.json"))
		if err != nil || !strings.Contains(string(got), `"Requeued":1,"Failed":0,"Skipped":0,"Errors":1,"Damaged":1`) ||
			!strings.Contains(string(got), `"Unreadable":["analysis bad: `) {
			t.Errorf("%s, %v", got, err)
		}
	})
	// Clusters alone.
	synctest.Test(t, func(t *testing.T) {
		clusters := placement.New(docstore.NewMemory(nil), nil)
		m, err := clusters.Join(t.Context(), placement.Join{Cluster: placement.Cluster{Tenant: "acme", Name: "prod"},
			Member: "ann", RequestID: "j"})
		if err != nil || m.Code != placement.OK {
			t.Fatalf("%+v, %v", m, err)
		}
		time.Sleep(placement.DefaultTTL)
		s, err := aws.NewSweeper(nil, analysis.Sweep{}, clusters, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Invoke(t.Context(), file(t, "schedule.json"))
		want :=
			`{"Stale":0,"Requeued":0,"Failed":0,"Skipped":0,"Errors":0,"Damaged":0,"More":false,"Clusters":{"Clusters":1,"Evicted":1,"Freed":0,"Removed":0,"Retired":0,"Errors":0,"Damaged":0,"More":false}}`
		if err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	})
	// Without a log, too, which means none.
	s, err := aws.NewSweeper(analysis.New(docstore.NewMemory(nil), nil), analysis.Sweep{Queue: &queue{}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Invoke(t.Context(), file(t, "schedule.json")); err != nil {
		t.Error(err)
	}
	if s, err := aws.NewSweeper(nil, analysis.Sweep{}, nil, nil); s != nil || err == nil ||
		!strings.Contains(err.Error(), "queue") {
		t.Errorf("%v", err)
	}
}
