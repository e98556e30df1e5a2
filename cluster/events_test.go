package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
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
