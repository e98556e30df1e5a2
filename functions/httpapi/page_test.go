package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// fillLocks writes n locks of the tenant acme, each with 32 labels of 512 bytes.
func fillLocks(t *testing.T, s docstore.Store, n int) {
	t.Helper()
	labels := map[string]string{}
	for i := range lock.MaxMetadata {
		labels[fmt.Sprint("label-", i)] = strings.Repeat("x", lock.MaxMetadataValueBytes)
	}
	for i := range n {
		o, err := lock.New(s, nil).Acquire(t.Context(), lock.Acquire{
			ID: lock.ID{Tenant: "acme", Key: fmt.Sprintf("k%03d", i)}, Owner: "ann", RequestID: "r1", TTLSeconds: 60,
			Metadata: labels,
		})
		if err != nil || o.Code != lock.OK {
			t.Fatal(o, err)
		}
	}
}

// pieces is a response that remembers the largest of its writes. If held is not nil, it reads nothing until held is
// closed, as a caller whose connection is full.
type pieces struct {
	httptest.ResponseRecorder

	largest int
	held    chan struct{}
}

func newPieces(held chan struct{}) *pieces {
	return &pieces{ResponseRecorder: *httptest.NewRecorder(), held: held}
}

func (p *pieces) Write(b []byte) (int, error) {
	if p.held != nil && p.Code == http.StatusOK {
		<-p.held
	}
	p.largest = max(p.largest, len(b))
	return p.ResponseRecorder.Write(b)
}

// TestPagesAreWrittenEntryByEntry: no write has more than one lock, and what arrives is the page of the contract,
// whatever is in the text.
func TestPagesAreWrittenEntryByEntry(t *testing.T) {
	d := open(t, httpapi.Development{})
	list := func(query string) (contracts.LockPage, int, int) {
		t.Helper()
		// as the contract says
		d.get("/v1/tenants/acme/locks?"+query).wants(t, http.StatusOK, d.get("/v1/tenants/acme/locks?"+query).raw)
		w := newPieces(nil)
		httpapi.New(d.store, httpapi.Development{}, nil).ServeHTTP(
			w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8080/v1/tenants/acme/locks?"+query, nil))
		var p contracts.LockPage
		strict := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&p); err != nil || strict.More() || w.Header().Get("Content-Type") != "application/json" {
			t.Fatalf("%v, %s: %.200s", err, w.Header(), w.Body)
		}
		return p, w.Body.Len(), w.largest
	}
	if p, _, _ := list(""); p.Locks == nil || len(p.Locks) != 0 || p.NextPageToken != "" {
		t.Errorf("an empty page: %+v", p)
	}
	odd := map[string]string{"html": "<b>&amp;</b>", "quotes": "\"\\\"", "separators": "\u2028\u2029", "script": "Ωλ🔒"}
	metadata, err := json.Marshal(odd)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b%3C%22", "c"} {
		d.post("/v1/tenants/acme/locks/"+key+"/acquire", `{"request_id":"r1","owner_id":"ann","ttl_seconds":60,"metadata":`+
			string(metadata)+`}`)
	}
	p, _, _ := list("page_size=2")
	if len(p.Locks) != 2 || p.Locks[1].LockKey != `b<"` ||
		fmt.Sprint(map[string]string(p.Locks[1].Metadata)) != fmt.Sprint(odd) {
		t.Errorf("the first page: %+v", p)
	}
	if p, _, _ = list("page_size=2&page_token=" + p.NextPageToken); len(p.Locks) != 1 || p.Locks[0].LockKey != "c" ||
		p.NextPageToken != "" {
		t.Errorf("the last page: %+v", p)
	}

	fillLocks(t, d.store, 60)
	p, size, largest := list("page_size=1000")
	one, err := json.Marshal(p.Locks[len(p.Locks)-1])
	if err != nil {
		t.Fatal(err)
	}
	if size < 700_000 || size > 900_000 || p.NextPageToken == "" || largest > len(one)+len(`"next_page_token":""`)+
		len(p.NextPageToken)+10 {
		t.Errorf("a page of %d bytes in writes of up to %d; a lock has %d", size, largest, len(one))
	}
}

// TestUnreadPages: forty callers ask for the largest page and read nothing of it. What the server holds for them stays
// within its bound, the others receive OVERLOADED and when to try again, and locks are granted as if nothing was: an
// unread page takes no slot.
func TestUnreadPages(t *testing.T) {
	for _, c := range []struct {
		name     string
		readers  int
		limits   httpapi.Limits
		wantHeld int
	}{
		// A page of 46 locks takes 0.79 MB, and the next one is begun while 4 MiB of the tenant's 12 are free.
		{"bounded", 40, httpapi.Limits{PageBytes: 16 << 20, Concurrent: 1, Lists: 1}, 11},
		{"a bound below one page", 3, httpapi.Limits{PageBytes: 1}, 1},
		{"the default", 40, httpapi.Limits{PageBytes: httpapi.DefaultPageBytes, Concurrent: 256}, 40},
		{"no bound", 40, httpapi.Limits{}, 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := docstore.NewMemory(nil)
				fillLocks(t, store, 60)
				h := httpapi.New(store, byHeader{}, &httpapi.Options{Limits: c.limits})
				send := func(w http.ResponseWriter, subject, tenant, method, path, body string) {
					r := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:8080/v1/tenants/"+tenant+"/locks"+path,
						strings.NewReader(body))
					r.Header.Set("Authorization", subject+"@"+tenant)
					h.ServeHTTP(w, r)
				}
				held := make(chan struct{})
				ended := make(chan *pieces, c.readers)
				for i := range c.readers {
					go func() {
						w := newPieces(held)
						send(w, fmt.Sprint("reader-", i%3), "acme", "GET", "?page_size=1000", "")
						ended <- w
					}()
					synctest.Wait() // it has its page, waits for room, or was rejected
				}
				for range c.readers - c.wantHeld {
					if w := <-ended; w.Code != 503 || !strings.Contains(w.Body.String(), `"code":"OVERLOADED"`) ||
						w.Header().Get("Retry-After") != "1" {
						t.Fatalf("%d %s %.200s", w.Code, w.Header(), w.Body)
					}
				}
				synctest.Wait()
				if len(ended) > 0 {
					t.Fatalf("fewer than %d pages are unread", c.wantHeld)
				}
				for i := range 10 {
					w := httptest.NewRecorder()
					if send(w, "ann", "acme", "POST", fmt.Sprint("/free", i, "/acquire"),
						`{"request_id":"r1","ttl_seconds":1}`); w.Code != 200 {
						t.Errorf("an acquire beside unread pages: %d %s", w.Code, w.Body)
					}
				}
				if w := httptest.NewRecorder(); c.limits.PageBytes != 1 {
					if send(w, "ann", "acmf", "GET", "", ""); w.Code != 200 {
						t.Errorf("a list of another tenant: %d %s", w.Code, w.Body)
					}
				}
				close(held)
				for range c.wantHeld {
					if w := <-ended; w.Code != 200 || !strings.HasSuffix(w.Body.String(), "\"}\n") {
						t.Errorf("a page: %d %.200s", w.Code, w.Body)
					}
				}
				for range c.wantHeld {
					w := httptest.NewRecorder()
					if send(w, "ann", "acme", "GET", "?page_size=1000", ""); w.Code != 200 {
						t.Errorf("afterwards: %d %s", w.Code, w.Body)
					}
				}
			})
		})
	}
}
