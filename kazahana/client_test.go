package kazahana_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/kazahana"
)

// serve is the HTTP endpoint of a table, at /v1/machine-ids.
func serve(t *table) http.Handler {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, good any, err error) {
		full, exhausted := errors.AsType[*kazahana.ExhaustedError](err)
		switch {
		case err == nil:
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(good)
		case exhausted:
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, `{"code":"MACHINE_IDS_EXHAUSTED","title":"full","status":503,"retryable":true,"retry_after_ms":%d}`,
				full.RetryAfter.Milliseconds())
		default:
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"code":"UNAVAILABLE","title":"away","status":503,"retryable":true}`)
		}
	}
	mux.HandleFunc("POST /v1/machine-ids/lease", func(w http.ResponseWriter, r *http.Request) {
		var o kazahana.AcquireOptions
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		leases, err := t.Acquire(r.Context(), o)
		answer(w, leases, err)
	})
	mux.HandleFunc("DELETE /v1/machine-ids/lease/{id}", func(w http.ResponseWriter, r *http.Request) {
		var o kazahana.ReleaseOptions
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if _, err := fmt.Sscan(r.PathValue("id"), &o.ID); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer(w, struct{}{}, t.Release(r.Context(), o))
	})
	return mux
}

// direct is a RoundTripper without a network.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Result(), nil
}

func provider(t *testing.T, h http.Handler) kazahana.LeaseProvider {
	t.Helper()
	c, err := client.New("https://id.example.com", &client.Options{HTTP: &http.Client{Transport: direct{h}}})
	if err != nil {
		t.Fatal(err)
	}
	return c.MachineIDs()
}

// TestGeneratorOverHTTP: a whole life, from the first lease to its release.
func TestGeneratorOverHTTP(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.generator(provider(w.T, serve(w.table)), kazahana.Options{ServiceID: "payments", MaxThroughputPerMs: 512})
		if p := w.next(g); p.Fallback || p.MachineID != 0 {
			t.Errorf("%+v", p)
		}
		if err := g.Close(w.Context()); err != nil {
			t.Fatal(err)
		}
		if got := w.table.released(); len(got) != 2 || w.table.units[0].notBefore != origin.UnixMilli()+1 {
			t.Errorf("released: %+v, %+v", got, w.table.units[:2])
		}
	})
	bubble(t, func(w *world) {
		w.table.units = w.table.units[:1]
		p := provider(w.T, serve(w.table))
		w.next(w.generator(p, kazahana.Options{}))
		time.Sleep(time.Minute)
		_, err := p.Acquire(w.Context(), kazahana.AcquireOptions{})
		full, ok := errors.AsType[*kazahana.ExhaustedError](err)
		if !ok || !errors.Is(err, kazahana.ErrExhausted) || full.RetryAfter != 9*time.Minute {
			t.Errorf("%v", err)
		}
	})
}

// The signature is that of `printf %s 42:1780315200000 | openssl dgst -sha256 -hmac hush`.
func TestSign(t *testing.T) {
	const want = "787399d82d05daa499f7161e6371edb965edbd7d32305695eaeebe6af2477ba3"
	if got := kazahana.Sign("hush", 42, 1_780_315_200_000); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
