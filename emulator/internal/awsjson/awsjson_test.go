package awsjson_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/emulator/internal/awsjson"
	"github.com/leasehold-dev/leasehold/emulator/internal/loopback"
)

// echo responds with the body of the request, and drops the connection of one for /drop.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.URL.Path == "/drop" {
		panic(http.ErrAbortHandler)
	}
	awsjson.Write(w, http.StatusTeapot, awsjson.Encode(string(body)))
})

// TestTransports: a client sees the same with a network and without.
func TestTransports(t *testing.T) {
	for _, test := range []struct {
		name string
		via  func(t *testing.T) (string, *http.Client)
	}{
		{"network", func(t *testing.T) (string, *http.Client) {
			return loopback.StartHTTP(t, "echo", echo), &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		}},
		{"memory", func(*testing.T) (string, *http.Client) {
			return "http://echo.local", &http.Client{Transport: awsjson.RoundTripper(echo)}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			url, client := test.via(t)
			do := func(ctx context.Context, path string, body io.Reader) (string, error) {
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+path, body)
				if err != nil {
					t.Fatal(err)
				}
				response, err := client.Do(r)
				if err != nil {
					return "", err
				}
				defer response.Body.Close()
				got, err := io.ReadAll(response.Body)
				return fmt.Sprintf("%d %s %d %s", response.StatusCode, response.Header.Get("Content-Type"), response.ContentLength,
					got), err
			}
			if got, err := do(t.Context(), "/", strings.NewReader("x")); err != nil ||
				got != `418 application/x-amz-json-1.0 3 "x"` {
				t.Errorf("a body: %s, %v", got, err)
			}
			if got, err := do(t.Context(), "/", nil); err != nil || got != `418 application/x-amz-json-1.0 2 ""` {
				t.Errorf("no body: %s, %v", got, err)
			}
			if got, err := do(t.Context(), "/drop", nil); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("a dropped connection: %s, %v", got, err)
			}
			gone, leave := context.WithCancel(t.Context())
			leave()
			if got, err := do(gone, "/", nil); !errors.Is(err, context.Canceled) {
				t.Errorf("a client that is gone: %s, %v", got, err)
			}
		})
	}
}

// TestServeEndsWithTheTest: no request reaches the server any more, even if another server has its port now.
func TestServeEndsWithTheTest(t *testing.T) {
	var reached atomic.Int32
	var url string
	get := func() {
		if response, err := http.Get(url); err == nil {
			response.Body.Close()
		}
	}
	t.Run("test", func(t *testing.T) {
		url = loopback.StartHTTP(t, "counting", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
		get()
	})
	get()
	if n := reached.Load(); n != 1 {
		t.Errorf("%d requests reached the server, 1 of them during the test", n)
	}
}

// TestRoundTripperDrops: without a network, what a dropped connection and a server that panics look like.
func TestRoundTripperDrops(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var fault any = http.ErrAbortHandler
	via := awsjson.RoundTripper(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if fault == "leave" {
			leave()
			panic(http.ErrAbortHandler)
		}
		panic(fault)
	}))
	try := func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
		}()
		response, err := via.RoundTrip(httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil))
		if err == nil {
			response.Body.Close()
		}
		return err
	}
	if err := try(); err != io.ErrUnexpectedEOF { //nolint:errorlint // this very value is promised
		t.Errorf("dropped: %v", err)
	}
	fault = "out of order"
	if err := try(); err == nil || err.Error() != "panic: out of order" {
		t.Errorf("a panic of the server: %v", err)
	}
	fault = "leave"
	if err := try(); !errors.Is(err, context.Canceled) {
		t.Errorf("dropped after the client left: %v", err)
	}
}

func TestEncode(t *testing.T) {
	if got := awsjson.Encode(map[string]any{"b": []int{1}, "a": "x"}); !bytes.Equal(got, []byte(`{"a":"x","b":[1]}`)) {
		t.Errorf("%s", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("a channel was encoded")
		}
	}()
	awsjson.Encode(make(chan int))
}

func TestCounts(t *testing.T) {
	var mu sync.Mutex
	b := awsjson.NewBook[string](&mu)
	for _, op := range []string{"Get", "Put", "Get"} {
		mu.Lock()
		b.Add(op)
		mu.Unlock()
	}
	counts := b.Counts()
	counts["Put"] = 9 // a copy: the book does not see it
	if b.Count("Get") != 2 || b.Count("Put") != 1 || b.Count("List") != 0 {
		t.Errorf("Get %d, Put %d, List %d", b.Count("Get"), b.Count("Put"), b.Count("List"))
	}
	mu.Lock()
	b.Reset()
	mu.Unlock()
	if got := b.Counts(); len(got) != 0 || !maps.Equal(counts, map[string]int{"Get": 2, "Put": 9}) {
		t.Errorf("after the reset %v, and the copy %v", got, counts)
	}
}

// TestFaults: which of the requests 1 to 5 each fault happens to, and in which order.
func TestFaults(t *testing.T) {
	var mu sync.Mutex
	b := awsjson.NewBook[string](&mu)
	hit := func(meets string) string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(b.Hit(func(f *string) bool { return strings.Contains(meets, *f) }), "")
	}
	always, once, later, other := b.Inject("a", 0, 0), b.Inject("b", 0, 1), b.Inject("c", 2, 2), b.Inject("d", 0, 0)
	var got []string
	for range 5 {
		got = append(got, hit("abc"))
	}
	if fmt.Sprint(got) != "[ab a ac ac a]" {
		t.Errorf("%q", got)
	}
	always.Remove()
	always.Remove()
	once.Remove() // it is used up already
	if got := hit("abcd"); got != "d" {
		t.Errorf("with only the last one in force: %q", got)
	}
	if always.Hits() != 5 || once.Hits() != 1 || later.Hits() != 2 || other.Hits() != 1 {
		t.Errorf("hits: %d, %d, %d, %d", always.Hits(), once.Hits(), later.Hits(), other.Hits())
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithTimeout(t.Context(), time.Minute)
		defer leave()
		for _, test := range []struct {
			wait, passes time.Duration
			stays        bool
		}{
			{-time.Second, 0, true},
			{0, 0, true},
			{20 * time.Second, 20 * time.Second, true},
			{time.Hour, 40 * time.Second, false}, // what is left of the minute
			{time.Hour, 0, false},
			{0, 0, true},
		} {
			began := time.Now()
			if stays := awsjson.Wait(ctx, test.wait); stays != test.stays || time.Since(began) != test.passes {
				t.Errorf("waiting %v: %t after %v", test.wait, stays, time.Since(began))
			}
		}
	})
}
