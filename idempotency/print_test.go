package idempotency_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/idempotency"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// asForm makes a request that of a form in a browser.
func asForm(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }

// parsedOutside is middleware that reads the form before the request comes to the middleware under test.
func parsedOutside(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseMultipartForm(1 << 20)
		next.ServeHTTP(w, r)
	})
}

// pays is a handler of forms.
func pays(runs *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "run %d: %s to %s", runs.Add(1), r.FormValue("amount"), r.FormValue("to"))
	})
}

// TestEachSeesTheBody: the scope function, the handler and middleware on either side see the body of a request,
// also after another one of them has read it.
func TestEachSeesTheBody(t *testing.T) {
	const form = "account=ann&amount=10&to=bob"
	var seen []string
	read := func(who string, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		seen = append(seen, fmt.Sprintf("%s: %s, %v", who, b, err))
	}
	m, err := idempotency.New(gate(docstore.NewMemory(nil)), func(r *http.Request) string {
		account := r.FormValue("account")
		seen = append(seen, "scope: "+account)
		return account
	}, &idempotency.Options{Name: "payments"})
	if err != nil {
		t.Fatal(err)
	}
	inside := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusOK)
		r.Body = io.NopCloser(bytes.NewReader(b))
		seen = append(seen, "inside: "+string(b), "handler: "+r.FormValue("amount"))
	})
	outside := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.Wrap(inside).ServeHTTP(w, r)
		read("outside", r)
	})
	post(outside, "k1", form, asForm)
	if want := []string{"scope: ann", "inside: " + form, "handler: 10", "outside: " + form + ", <nil>"}; !slices.Equal(
		seen, want) {
		t.Errorf("%q", seen)
	}
	seen = nil
	if w := post(outside, "k1", form, asForm); !replayed(w) || !slices.Equal(seen,
		[]string{"scope: ann", "outside: " + form + ", <nil>"}) {
		t.Errorf("again: %d %q", w.Code, seen)
	}
	other := strings.Replace(form, "ann", "eve", 1)
	if w := post(outside, "k1", other, asForm); w.Code != 200 || replayed(w) {
		t.Errorf("another account with the same key: %d %s", w.Code, w.Body)
	}
}

// parts is the body of a form with a file.
func parts(t testing.TB, amount, file, kind string) (body, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := errors.Join(w.SetBoundary("boundary"), w.WriteField("amount", amount)); err != nil {
		t.Fatal(err)
	}
	part, err := w.CreatePart(map[string][]string{
		"Content-Disposition": {`form-data; name="order"; filename="order.txt"`}, "Content-Type": {kind}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(part, file); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String(), w.FormDataContentType()
}

// TestFormParsedOutside: of a form that middleware outside has parsed, another amount under the same key is another
// request. A server with that middleware and one without it know each other's requests.
func TestFormParsedOutside(t *testing.T) {
	var runs atomic.Int64
	store := docstore.NewMemory(nil)
	plain := middleware(t, gate(store), nil).Wrap(pays(&runs))
	outside := parsedOutside(middleware(t, gate(store), nil).Wrap(pays(&runs)))
	for i, here := range []http.Handler{plain, outside} {
		key := fmt.Sprintf("form-%d", i)
		first := post(here, key, "amount=10&to=bob", asForm)
		for name, there := range map[string]http.Handler{"without": plain, "with": outside} {
			if w := post(there, key, "amount=10&to=bob", asForm); w.Body.String() != first.Body.String() || !replayed(w) {
				t.Errorf("%d, %s: %d %s", i, name, w.Code, w.Body)
			}
			for _, other := range []string{"amount=99&to=bob", "amount=10&to=eve", "amount=10&amount=10&to=bob",
				"amount=10", "amount=10&to=bob&x="} {
				is(t, name+": "+other, post(there, key, other, asForm), 422, "IDEMPOTENCY_KEY_REUSED")
			}
		}
		key = fmt.Sprintf("multipart-%d", i)
		send := func(h http.Handler, amount, file, kind string) *httptest.ResponseRecorder {
			body, contentType := parts(t, amount, file, kind)
			return post(h, key, body, func(r *http.Request) { r.Header.Set("Content-Type", contentType) })
		}
		send(here, "10", "ten", "text/plain")
		for name, there := range map[string]http.Handler{"without": plain, "with": outside} {
			if w := send(there, "10", "ten", "text/plain"); !replayed(w) {
				t.Errorf("%d, multipart %s: %d %s", i, name, w.Code, w.Body)
			}
			is(t, name+": field", send(there, "11", "ten", "text/plain"), 422, "IDEMPOTENCY_KEY_REUSED")
			is(t, name+": file", send(there, "10", "two", "text/plain"), 422, "IDEMPOTENCY_KEY_REUSED")
			is(t, name+": type of the file", send(there, "10", "ten", "text/html"), 422, "IDEMPOTENCY_KEY_REUSED")
		}
	}
	if runs.Load() != 4 {
		t.Errorf("%d runs", runs.Load())
	}
	// What is equal as parsed may have been sent otherwise.
	if w := post(plain, "form-0", "to=bob&amount=10", asForm); !replayed(w) {
		t.Errorf("in another order: %d %s", w.Code, w.Body)
	}
}

// TestBodyConsumed: a body that is not there any more, whole or in part, is refused, and the handler does not run.
func TestBodyConsumed(t *testing.T) {
	var runs atomic.Int64
	var warned []error
	m := middleware(t, gate(docstore.NewMemory(nil)), &idempotency.Options{
		Warn: func(_ *http.Request, err error) { warned = append(warned, err) }})
	reading := func(bytes int64) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.CopyN(io.Discard, r.Body, bytes)
			m.Wrap(payments(&runs, 0)).ServeHTTP(w, r)
		})
	}
	unknown := func(r *http.Request) { r.ContentLength = -1; r.Header.Set("Content-Type", "application/json") }
	is(t, "whole", post(reading(100), "k1", "ten euros"), 500, "IDEMPOTENCY_BODY_CONSUMED")
	is(t, "a part", post(reading(3), "k1", "ten euros"), 500, "IDEMPOTENCY_BODY_CONSUMED")
	is(t, "of unknown length", post(reading(100), "k1", "ten euros", unknown), 500, "IDEMPOTENCY_BODY_CONSUMED")
	is(t, "as parts", post(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, contentType := parts(t, "10", "ten", "text/plain")
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Type", contentType)
		if _, err := r.MultipartReader(); err != nil {
			t.Error(err)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		m.Wrap(payments(&runs, 0)).ServeHTTP(w, r)
	}), "k1", ""), 500, "IDEMPOTENCY_BODY_CONSUMED")
	if runs.Load() != 0 || len(warned) != 4 || !errors.Is(warned[0], idempotency.ErrBodyConsumed) {
		t.Errorf("%d runs, %v", runs.Load(), warned)
	}
	is(t, "empty", post(reading(0), "k2", ""), 201, "")
	is(t, "no length and no type", post(reading(0), "k3", "", func(r *http.Request) { r.ContentLength = -1 }), 201, "")
	is(t, "no length", post(reading(0), "k4", "ten", unknown), 201, "")
	is(t, "decompressed", post(reading(0), "k5", "ten", func(r *http.Request) {
		r.ContentLength = 30
		r.Header.Set("Content-Encoding", "gzip")
	}), 201, "")
}

// TestEmptyScope: a request of which no one knows whose it is does not run.
func TestEmptyScope(t *testing.T) {
	var runs atomic.Int64
	var warned []error
	m, err := idempotency.New(gate(docstore.NewMemory(nil)),
		func(r *http.Request) string { return r.Header.Get("X-User") },
		&idempotency.Options{Name: "payments", Warn: func(_ *http.Request, err error) { warned = append(warned, err) }})
	if err != nil {
		t.Fatal(err)
	}
	is(t, "empty scope", post(m.Wrap(payments(&runs, 0)), "k1", "ten"), 500, "IDEMPOTENCY_SCOPE_EMPTY")
	if runs.Load() != 0 || len(warned) != 1 || !errors.Is(warned[0], idempotency.ErrEmptyScope) {
		t.Errorf("%d runs, %v", runs.Load(), warned)
	}
}

// TestHeadersThatCannotBeCompared are refused when the middleware is made.
func TestHeadersThatCannotBeCompared(t *testing.T) {
	g := gate(docstore.NewMemory(nil))
	for _, name := range []string{"host", "Idempotency-Key", "content-length", "Transfer-Encoding", "Connection", "TE",
		"", "X Currency", "X-Currency:", "Wäh"} {
		_, err := idempotency.New(g, user, &idempotency.Options{Name: "payments", Headers: []string{"X-Currency", name}})
		if err == nil || !strings.Contains(err.Error(), "Options.Headers") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestTwoConfigurations: while a service is updated, some of its programs compare other header fields than the others.
// They do not refuse each other's retries; what both compare is compared.
func TestTwoConfigurations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		store := docstore.NewMemory(nil)
		with := func(names ...string) http.Handler {
			return middleware(t, gate(store), &idempotency.Options{Headers: names}).Wrap(payments(&runs, time.Second))
		}
		before, after, none := with("X-Currency"), with("X-Currency", "X-Shop"), with()
		send := func(h http.Handler, key, currency, shop, body string) *httptest.ResponseRecorder {
			return post(h, key, body, func(r *http.Request) {
				r.Header.Set("X-Currency", currency)
				r.Header.Set("X-Shop", shop)
			})
		}
		for i, first := range []http.Handler{before, after, none} {
			key := fmt.Sprint("k", i)
			go send(first, key, "EUR", "a", "ten")
			synctest.Wait()
			for j, second := range []http.Handler{before, after, none} {
				if w := send(second, key, "EUR", "a", "ten"); w.Code != 201 || !replayed(w) {
					t.Errorf("%d then %d: %d %s", i, j, w.Code, w.Body)
				}
				is(t, "another body", send(second, key, "EUR", "a", "two"), 422, "IDEMPOTENCY_KEY_REUSED")
				if w := send(second, key, "JPY", "a", "ten"); (w.Code == 422) != (first != nil && i != 2 && j != 2) {
					t.Errorf("%d then %d, another currency: %d %s", i, j, w.Code, w.Body)
				}
			}
		}
		if runs.Load() != 3 {
			t.Errorf("%d runs", runs.Load())
		}
	})
}

// TestEscapedPath: paths that differ in what is escaped are different paths.
func TestEscapedPath(t *testing.T) {
	var runs atomic.Int64
	h := middleware(t, gate(docstore.NewMemory(nil)), nil).Wrap(payments(&runs, 0))
	at := func(path string) func(*http.Request) {
		return func(r *http.Request) {
			var err error
			if r.URL, err = url.Parse(path); err != nil {
				t.Error(err)
			}
		}
	}
	post(h, "k1", "ten", at("/to/ann%2Fbob"))
	is(t, "not escaped", post(h, "k1", "ten", at("/to/ann/bob")), 422, "IDEMPOTENCY_KEY_REUSED")
}

// FuzzTwoRequests: two requests with one key get one response if they are equal in all that is covered, and never
// otherwise. The oracle compares them as text; of forms that middleware outside has parsed it compares the fields.
func FuzzTwoRequests(f *testing.F) {
	f.Add("/payments", "a=1", "shop.example", "EUR", "amount=10&to=bob", "/payments", "a=1", "SHOP.example", "EUR",
		"to=bob&amount=10", uint8(7))
	f.Add("/a/b", "", "h", "", "x", "/a%2Fb", "", "h", "", "x", uint8(0))
	f.Add("/a", "b", "h", "c", "d", "/ab", "", "h", "c", "d", uint8(8))
	f.Add("/a", "", "h", "c", "amount=1;x", "/a", "", "h", "c", "amount=2;x", uint8(5))
	f.Add("/a", "", "h", "c", "a=%zz&b=1", "/a", "", "h", "c", "a=%yy&b=1", uint8(3))
	f.Fuzz(func(t *testing.T, path1, query1, host1, value1, body1, path2, query2, host2, value2, body2 string, how uint8) {
		form, outside1, outside2 := how&1 != 0, how&2 != 0, how&4 != 0
		made := func(path, query, host, value, body string, patch bool) *http.Request {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
			if patch {
				r.Method = http.MethodPatch
			}
			r.URL = &url.URL{Path: path, RawQuery: query}
			r.Host = host
			r.Header.Set("X-Currency", value)
			r.Header.Set("Idempotency-Key", "k1")
			if form {
				asForm(r)
			}
			return r
		}
		r1, r2 := made(path1, query1, host1, value1, body1, false), made(path2, query2, host2, value2, body2, how&8 != 0)
		host := func(h string) string {
			return regexp.MustCompile(`:(80|443)$`).ReplaceAllString(strings.ToLower(h), "")
		}
		equal := r1.Method == r2.Method && r1.URL.EscapedPath() == r2.URL.EscapedPath() && query1 == query2 &&
			host(host1) == host(host2) && value1 == value2
		fields1, err1 := url.ParseQuery(body1)
		fields2, err2 := url.ParseQuery(body2)
		asFields := form && (outside1 || outside2)
		whole1, whole2 := form && err1 == nil && len(fields1) > 0, form && err2 == nil && len(fields2) > 0
		switch {
		case asFields && len(fields1)*len(fields2) == 0:
			return // nothing is left of it: refused, see TestBodyConsumed
		case asFields && outside1 != outside2 && (err1 != nil || err2 != nil):
			return // the one has bytes and the other what could be parsed of them: refused if they are not the same
		case asFields:
			equal = equal && maps.EqualFunc(fields1, fields2, slices.Equal)
		case whole1 && whole2:
			equal = equal && maps.EqualFunc(fields1, fields2, slices.Equal)
		default:
			equal = equal && body1 == body2
		}

		var ran atomic.Int64
		m, err := idempotency.New(direct.Runs(runs.New(docstore.NewMemory(nil), nil), "shop", 0), user,
			&idempotency.Options{Name: "payments", Headers: []string{"X-Currency"}})
		if err != nil {
			t.Fatal(err)
		}
		send := func(r *http.Request, outside bool) *httptest.ResponseRecorder {
			h := m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, ran.Add(1)) }))
			if outside {
				h = parsedOutside(h)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		if w := send(r1, outside1); w.Code != 200 || replayed(w) {
			t.Fatalf("the first: %d %s", w.Code, w.Body)
		}
		w := send(r2, outside2)
		if shared := w.Code == 200 && replayed(w); shared != equal || !shared && w.Code != 422 || ran.Load() != 1 {
			t.Errorf("equal: %v, and the second gets %d %s, after %d runs", equal, w.Code, w.Body, ran.Load())
		}
		if !reflect.DeepEqual(r1.URL, &url.URL{Path: path1, RawQuery: query1}) {
			t.Errorf("the request's URL became %v", r1.URL)
		}
	})
}

// TestHonestRetries: what libraries and proxies change between two sendings of one request makes no other one of it: the
// boundary of a multipart form, the order of fields, a default port; and the host, where that is not compared.
func TestHonestRetries(t *testing.T) {
	var runs atomic.Int64
	store := docstore.NewMemory(nil)
	h := middleware(t, gate(store), nil).Wrap(pays(&runs))
	body, kind := parts(t, "10", "ten", "text/plain")
	boundary := strings.TrimPrefix(kind, "multipart/form-data; boundary=")
	as := func(kind string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Content-Type", kind) }
	}
	post(h, "k1", body, as(kind))
	other := strings.ReplaceAll(body, boundary, "XXX")
	if w := post(h, "k1", other, as("multipart/form-data; boundary=XXX")); !replayed(w) || !strings.Contains(w.Body.String(), "10 to") {
		t.Errorf("another boundary: %d %s", w.Code, w.Body)
	}
	is(t, "another amount", post(h, "k1", strings.Replace(other, "10", "11", 1), as("multipart/form-data; boundary=XXX")), 422,
		"IDEMPOTENCY_KEY_REUSED")
	at := func(host string) func(*http.Request) { return func(r *http.Request) { r.Host = host } }
	for _, host := range []string{"shop.example", "SHOP.example:443", "shop.example:80"} {
		if w := post(h, "k2", "ten", at(host)); w.Code != 200 {
			t.Errorf("%s: %d %s", host, w.Code, w.Body)
		}
	}
	if runs.Load() != 2 {
		t.Errorf("%d runs", runs.Load())
	}
	is(t, "another port", post(h, "k2", "ten", at("shop.example:8080")), 422, "IDEMPOTENCY_KEY_REUSED")
	whatever := middleware(t, gate(store), &idempotency.Options{IgnoreHost: true}).Wrap(pays(&runs))
	post(whatever, "k3", "ten", at("replica-1:8080"))
	if w := post(whatever, "k3", "ten", at("replica-2:8080")); !replayed(w) {
		t.Errorf("another replica: %d %s", w.Code, w.Body)
	}
}

// TestTwinsWithTwoBoundaries: of two sendings of one form at once, each that runs the handler has its own bytes.
func TestTwinsWithTwoBoundaries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body, kind := parts(t, "10", "ten", "text/plain")
		boundary := strings.TrimPrefix(kind, "multipart/form-data; boundary=")
		ctx, hangUp := context.WithCancel(t.Context())
		slow := &slowly{Gate: gate(docstore.NewMemory(nil)), takes: 1900 * time.Millisecond}
		h := middleware(t, slow, nil).Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.FormValue("amount"))
		}))
		go post(h, "k1", body, func(r *http.Request) {
			r.Header.Set("Content-Type", kind)
			*r = *r.WithContext(ctx)
		})
		time.Sleep(time.Second)
		time.AfterFunc(500*time.Millisecond, hangUp) // the second one runs the handler
		w := post(h, "k1", strings.ReplaceAll(body, boundary, "XXX"), func(r *http.Request) {
			r.Header.Set("Content-Type", "multipart/form-data; boundary=XXX")
		})
		if w.Code != 200 || w.Body.String() != "10" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		time.Sleep(time.Minute)
	})
}

// TestPayload: what a policy leaves out of the body is not compared.
func TestPayload(t *testing.T) {
	var runs atomic.Int64
	h := middleware(t, gate(docstore.NewMemory(nil)), &idempotency.Options{
		Payload: func(_ *http.Request, body []byte) []byte { amount, _, _ := bytes.Cut(body, []byte(",")); return amount },
	}).Wrap(payments(&runs, 0))
	post(h, "k1", "ten,at noon")
	if w := post(h, "k1", "ten,at one"); !replayed(w) || w.Body.String() != "payment 1 of ten,at noon" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	is(t, "another amount", post(h, "k1", "two,at noon"), 422, "IDEMPOTENCY_KEY_REUSED")
}
