package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// pages is a provider of pages that a test has written.
type pages struct {
	cluster.Provider

	all   []contracts.EventPage
	asked []cluster.EventQuery
	at    []time.Time
}

func (p *pages) Events(_ context.Context, q cluster.EventQuery) (contracts.EventPage, error) {
	p.asked, p.at = append(p.asked, q), append(p.at, time.Now())
	if len(p.all) == 0 {
		return contracts.EventPage{}, contracts.CodeCursorExpired
	}
	page := p.all[0]
	p.all = p.all[1:]
	return page, nil
}

// TestEventReader: events that are shown again are left out, for as long as they can be; each page is asked for by the
// place of the one before, after the time that it asks for; and what was seen long ago is not remembered.
func TestEventReader(t *testing.T) {
	inWorld(t, func(t *testing.T, _ *world) {
		event := func(second int) contracts.PlacementEvent {
			at := time.Date(2026, 1, 1, 0, 0, second, 0, time.UTC).Format(contracts.TimeFormat)
			return contracts.PlacementEvent{EventID: fmt.Sprint("e", second), At: at}
		}
		page := func(next string, seconds ...int) (p contracts.EventPage) {
			for _, s := range seconds {
				p.Events = append(p.Events, event(s))
			}
			p.Next = next
			return p
		}
		empty := page("p2")
		empty.PollAfterMs = 3000
		p := &pages{all: []contracts.EventPage{
			page("p1", 1, 2), empty, page("p3", 1, 2, 3), page("p4", 12), page("p5", 2, 3, 12), page("p6", 100),
			page("p7", 2, 100),
		}}
		r := cluster.NewEventReader(p, cluster.EventQuery{Member: "ann", After: "p0", Wait: time.Second, PageSize: 3})
		var got []string
		for range 7 {
			page, more, err := r.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			text := []string{r.Place()}
			for _, e := range page.Events {
				text = append(text, e.EventID)
			}
			got = append(got, fmt.Sprint(strings.Join(text, " "), " ", more))
		}
		// the events of the first seconds cannot come again after that of second 100: the last page proves nothing else
		want := "p1 e1 e2 false, p2 false, p3 e3 true, p4 e12 false, p5 true, p6 e100 false, p7 e2 false"
		if strings.Join(got, ", ") != want {
			t.Errorf("%s\nwant %s", strings.Join(got, ", "), want)
		}
		if pause := p.at[2].Sub(p.at[1]); pause != 3*time.Second {
			t.Errorf("asked again after %v", pause)
		}
		if _, _, err := r.Next(t.Context()); !errors.Is(err, contracts.CodeCursorExpired) || r.Place() != "p7" {
			t.Errorf("%v at %s", err, r.Place())
		}
		r.Restart()
		_, _, _ = r.Next(t.Context())
		for i, q := range p.asked {
			after := fmt.Sprint("p", i)
			if i > 7 {
				after = ""
			}
			if q != (cluster.EventQuery{Member: "ann", After: after, Wait: time.Second, PageSize: 3}) {
				t.Errorf("request %d is %+v", i, q)
			}
		}
	})
}

// TestEventsOfTwoServers: of servers whose clocks differ, the feed has events of an identity, and of a member, in another
// order than that in which they happened. CompareEvents has the right one.
func TestEventsOfTwoServers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		server := func(ahead time.Duration) cluster.Provider {
			return direct.Cluster(placement.New(w.store, &placement.Options{
				Now: func() time.Time { return w.now().Add(ahead) }}), chat)
		}
		ok := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		ctx, first := t.Context(), server(0)
		ann, err := first.Join(ctx, "ann", contracts.MemberJoinRequest{RequestID: "j1", Kinds: []string{"room"}, TTLSeconds: 60})
		ok(err)
		for n := range 3 {
			o, err := first.Claim(ctx, "room", "a", contracts.ActivationClaimRequest{RequestID: fmt.Sprint("c", n)})
			ok(err)
			mine := contracts.ActivationHoldRequest{Member: "ann", Incarnation: ann.Incarnation,
				FencingToken: o.Activation.FencingToken}
			_, err = server(-2*time.Second).Activated(ctx, "room", "a", mine)
			ok(err)
			_, err = server(-time.Second).Deactivate(ctx, "room", "a", contracts.ActivationEndRequest{Member: mine.Member,
				Incarnation: mine.Incarnation, FencingToken: mine.FencingToken, Reason: fmt.Sprint("end ", n)})
			ok(err)
		}
		_, err = server(-2*time.Second).Drain(ctx, "ann", contracts.MemberRequest{Incarnation: ann.Incarnation})
		ok(err)
		_, err = first.Leave(ctx, "ann", contracts.MemberRequest{Incarnation: ann.Incarnation})
		ok(err)
		time.Sleep(time.Second)
		page, _, err := cluster.NewEventReader(first, cluster.EventQuery{}).Next(ctx)
		ok(err)
		var told, member []contracts.PlacementEvent
		for _, e := range page.Events {
			if e.Kind == "" {
				member = append(member, e)
			} else {
				told = append(told, e)
			}
		}
		order := func(events []contracts.PlacementEvent) (all []string) {
			for _, e := range events {
				all = append(all, fmt.Sprint(e.To, " ", e.Reason))
			}
			return all
		}
		want := []string{"LOCKED ", "ACTIVE ", "FREE end 0", "LOCKED ", "ACTIVE ", "FREE end 1", "LOCKED ", "ACTIVE ",
			"FREE end 2"}
		if slices.Equal(order(told), want) {
			t.Error("the feed has them in their order: this shows nothing")
		}
		slices.SortFunc(told, cluster.CompareEvents)
		slices.SortFunc(member, cluster.CompareEvents)
		if got := order(told); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if got, want := order(member), []string{"ACTIVE ", "DRAINING ", "LEFT "}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// again is a directory that shows the same events again and again, at once, as one of two servers may.
type again struct {
	cluster.Directory

	asked int
}

func (d *again) Events(context.Context, cluster.EventQuery) (contracts.EventPage, error) {
	d.asked++
	return contracts.EventPage{Next: "2000-01-01T00:00:01.000Z", Events: []contracts.PlacementEvent{
		{EventID: "a", At: "2000-01-01T00:00:00.000Z", Kind: "room", ID: "a", To: "FREE"}}}, nil
}

// TestReaderDoesNotSpin: a page that has nothing new is asked for again after a pause, whatever is in it.
func TestReaderDoesNotSpin(t *testing.T) {
	inWorld(t, func(t *testing.T, _ *world) {
		d := &again{}
		r := cluster.NewEventReader(d, cluster.EventQuery{Wait: time.Second, PageSize: 100})
		for begin := time.Now(); time.Since(begin) < 10*time.Second && d.asked < 1000; {
			if _, _, err := r.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if d.asked > 42 {
			t.Errorf("%d requests in 10 s", d.asked)
		}
	})
}

// TestFailuresAndRefusalsOverHTTP: what a server refuses, and what a host cannot activate, is an event of the member
// and of the locator that asked; the feed has them, too, with the reason (PLC-ONE-4, PLC-LIFE-4).
func TestFailuresAndRefusalsOverHTTP(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		way := &lossy{server: httpapi.New(w.store, httpapi.Development{}, &httpapi.Options{Now: w.now})}
		c, err := client.New("http://localhost", &client.Options{HTTP: &http.Client{Transport: way}})
		if err != nil {
			t.Fatal(err)
		}
		p := c.Placements(chat.Tenant, chat.Name)
		member, caller := &journal{}, &journal{}
		h := &host{w: w, name: "ann", contexts: map[cluster.Identity]context.Context{},
			activate: func(context.Context, cluster.Activation) error { return errors.New("no disk") }}
		m, err := cluster.NewMember(p, "ann", h, (&cluster.Options{Kinds: []string{"room"}, Partitions: 16,
			Observe: member.add}).WithClock(w.now))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := cluster.NewLocator(p, &cluster.LocatorOptions{Observe: caller.add})
		if err := l.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Serve(t.Context(), room("a"), nil); err == nil {
			t.Error("a was served")
		}
		if _, err := l.Activate(t.Context(), room("b"), nil); !errors.Is(err, contracts.CodeActivationFailed) ||
			!strings.Contains(err.Error(), "no disk") {
			t.Error(err)
		}
		hall := cluster.Identity{Kind: "hall", ID: "a"}
		if _, err := m.Serve(t.Context(), hall, nil); !errors.Is(err, contracts.CodeMemberIneligible) {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := l.Activate(ctx, hall, nil); !errors.Is(err, contracts.CodeNoEligibleMember) {
			t.Error(err)
		}
		for who, c := range map[string]struct {
			of   *journal
			what string
			id   cluster.Identity
			says string
		}{
			"failure of a claim of the member": {member, cluster.ActivationFailed, room("a"), "no disk"},
			"failure of another's claim":       {member, cluster.ActivationFailed, room("b"), "no disk"},
			"failure, where it was asked for":  {caller, cluster.ClaimRefused, room("b"), "ACTIVATION_FAILED"},
			"refusal of a claim of the member": {member, cluster.ClaimRefused, hall, "MEMBER_INELIGIBLE"},
			"refusal of a claim for another":   {caller, cluster.ClaimRefused, hall, "NO_ELIGIBLE_MEMBER"},
		} {
			found := slices.DeleteFunc(c.of.has(c.what), func(e cluster.Event) bool { return e.Identity != c.id })
			if len(found) != 1 || found[0].At.IsZero() || !strings.Contains(found[0].Err.Error(), c.says) {
				t.Errorf("%s: %+v", who, found)
			}
		}
		page, _, err := cluster.NewEventReader(p, cluster.EventQuery{}).Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		failed, refused := map[string]string{}, map[string]bool{}
		for _, e := range page.Events {
			if e.To == "REFUSED" {
				refused[e.Kind+" "+e.Member+" "+strings.SplitN(e.Reason, ",", 2)[0]] = true
			}
			if e.To == string(contracts.PhaseFree) {
				failed[e.ID] = e.Reason
			}
		}
		if !strings.Contains(failed["a"], "no disk") || !strings.Contains(failed["b"], "no disk") {
			t.Errorf("%q", failed)
		}
		if !refused["hall ann MEMBER_INELIGIBLE"] || !refused["hall  NO_ELIGIBLE_MEMBER"] || len(refused) != 2 {
			t.Errorf("%v", refused)
		}
		l.Stop()
		if err := m.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
