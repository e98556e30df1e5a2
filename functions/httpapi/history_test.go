package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestHistory: who asks for what; the answer itself is the program's.
func TestHistory(t *testing.T) {
	t.Parallel()
	who := &callers{caller: httpapi.Caller{Subject: "ann", Tenant: "acme", Rights: httpapi.Admin}}
	d := open(t, who)
	d.get("/v1/history?kind=run&key=k&tenant_id=acme").refuses(t, 501, "NOT_CONFIGURED", "")
	var asked httpapi.HistoryQuery
	d.handler = contracttest.Handler(t, httpapi.New(d.store, who, &httpapi.Options{
		Now: d.clock.Now, History: func(_ context.Context, q httpapi.HistoryQuery) (contracts.LeaseHistory, error) {
			asked = q
			h := contracts.LeaseHistory{Kind: q.Kind, Key: q.Key, Holders: []contracts.RecordedLease{}}
			for i := range 103 {
				h.Leases = append(h.Leases, contracts.RecordedLease{Owner: strconv.Itoa(i), Events: []string{"e"}})
			}
			return h, nil
		},
	}))
	for query, field := range map[string]string{
		"kind=cluster&key=k":                          "kind",
		"kind=lock&tenant_id=acme":                    "key",
		"kind=lock&key=k":                             "tenant_id",
		"kind=analysis&key=k&tenant_id=acme":          "tenant_id",
		"kind=lock&key=k&tenant_id=acme&at=03:12":     "at",
		"kind=lock&key=k&tenant_id=acme&cluster=c":    "cluster",
		"kind=lock&key=k&tenant_id=acme&machine_id=1": "machine_id",
		"kind=activation&key=k&tenant_id=acme":        "cluster",
		"kind=machine_ids&key=k":                      "machine_id",
		"kind=machine_ids&key=k&machine_id=x":         "machine_id",
		"kind=lock&key=k&tenant_id=acme&owner=x":      "owner",
		"kind=lock&key=k&tenant_id=acme&at=x&at=y":    "at",
		"kind=lock&tenant_id=acme&key=%00":            "key",
	} {
		d.get("/v1/history?"+query).refuses(t, 400, "INVALID_ARGUMENT", field)
	}
	d.get("/v1/history?kind=lock&key=k&tenant_id=other").refuses(t, 403, "PERMISSION_DENIED", "")
	var h contracts.LeaseHistory
	a := d.get("/v1/history?kind=activation&key=room/lobby&tenant_id=acme&cluster=chat&at=2026-01-01T03:12:00%2B01:00")
	if err := json.Unmarshal([]byte(a.raw), &h); err != nil || a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	if len(h.Leases) != 100 || h.LeftOff != 3 || h.Leases[0].Owner != "3" {
		t.Errorf("%d leases, %d left off: the latest are listed", len(h.Leases), h.LeftOff)
	}
	if want := time.Date(2026, 1, 1, 2, 12, 0, 0, time.UTC); !asked.At.Equal(want) || asked.Cluster != "chat" ||
		asked.Tenant != "acme" || asked.Key != "room/lobby" || asked.Kind != "activation" {
		t.Errorf("asked for %+v", asked)
	}
	for _, of := range []string{"machine_ids&key=orders&machine_id=7", "analysis&key=a"} {
		d.get("/v1/history?kind="+of).refuses(t, 403, "PERMISSION_DENIED", "")
	}
	who.caller.Rights = httpapi.Operate
	d.get("/v1/history?kind=run&key=k&tenant_id=other")
	if asked.Tenant != "other" || asked.Kind != "run" {
		t.Errorf("an operator asked for %+v", asked)
	}
	d.get("/v1/history?kind=machine_ids&key=orders&machine_id=7")
	if asked.MachineID == nil || *asked.MachineID != 7 || !asked.At.IsZero() {
		t.Errorf("asked for %+v", asked)
	}
	who.caller.Rights = httpapi.AllRights &^ (httpapi.Admin | httpapi.Operate)
	d.get("/v1/history?kind=lock&key=k&tenant_id=acme").refuses(t, 403, "PERMISSION_DENIED", "")
}

// TestHistoriesOfTenants: a tenant reads audit events once at a time, and another one beside it.
func TestHistoriesOfTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reading, most atomic.Int32
		h := httpapi.New(docstore.NewMemory(nil), admins{}, &httpapi.Options{
			History: func(context.Context, httpapi.HistoryQuery) (contracts.LeaseHistory, error) {
				most.Store(max(most.Load(), reading.Add(1)))
				time.Sleep(time.Second)
				reading.Add(-1)
				return contracts.LeaseHistory{}, nil
			},
		})
		begin := time.Now()
		ends := func(who string) <-chan string {
			_, tenant, _ := strings.Cut(who, "@")
			end := make(chan string, 1)
			go func() {
				status, _, _ := ask(t.Context(), h, who, "/v1/history?kind=lock&key=k&tenant_id="+tenant)
				end <- fmt.Sprint(status, " after ", time.Since(begin))
			}()
			synctest.Wait()
			return end
		}
		all := []<-chan string{ends("ann@acme"), ends("bob@acme"), ends("ann@acmf"), ends("ann@acme"), ends("ann@acme")}
		for i, want := range []string{"200 after 1s", "200 after 2s", "200 after 1s", "200 after 3s", "503 after 2.5s"} {
			if got := <-all[i]; got != want {
				t.Errorf("request %d: %s, want %s", i, got, want)
			}
		}
		if n := most.Load(); n != 2 {
			t.Errorf("%d are read at once, want 2", n)
		}
	})
}

// admins is byHeader of administrators.
type admins struct{ byHeader }

func (a admins) Identify(r *http.Request) (httpapi.Caller, error) {
	c, err := a.byHeader.Identify(r)
	c.Rights = httpapi.Admin
	return c, err
}
