package fences

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"cloud.google.com/go/storage"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/fence"
)

// object is what a server keeps of the one object that it has.
type object struct {
	mu         sync.Mutex
	exists     bool
	content    []byte
	metadata   map[string]string
	generation int64
	written    []int64 // the tokens, in the order of the writes
	lose       int     // so many responses to writes are lost

	token func(o *object) int64
}

// write replaces the content, if the condition holds, and reports whether its response arrives.
func (o *object) write(holds bool, content []byte, metadata map[string]string) (written, arrives bool) {
	if !holds {
		return false, true
	}
	o.exists, o.content, o.metadata = true, content, metadata
	o.generation++
	o.written = append(o.written, o.token(o))
	if o.lose > 0 {
		o.lose--
		return true, false
	}
	return true, true
}

// etag is that of S3: of the content alone.
func (o *object) etag() string {
	sum := md5.Sum(o.content)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

// hangUp ends the connection without a response.
func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_ = conn.Close()
}

// serveS3 speaks as much of S3 as an object needs: GET, and PUT with If-Match and If-None-Match.
func (o *object) serveS3(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	fail := func(status int, code string) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		_ = xml.NewEncoder(w).Encode(struct {
			XMLName xml.Name `xml:"Error"`
			Code    string
		}{Code: code})
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	switch {
	case r.Method == http.MethodGet && !o.exists, match != "" && !o.exists:
		fail(http.StatusNotFound, "NoSuchKey")
	case r.Method == http.MethodGet:
		w.Header().Set("ETag", o.etag())
		_, _ = w.Write(o.content)
	case r.Method != http.MethodPut || strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked"):
		fail(http.StatusNotImplemented, "NotImplemented")
	default:
		written, arrives := o.write((match == "" || match == o.etag()) && (none == "" || !o.exists), body, nil)
		switch {
		case !arrives:
			hangUp(w)
		case !written:
			fail(http.StatusPreconditionFailed, "PreconditionFailed")
		default:
			w.Header().Set("ETag", o.etag())
		}
	}
}

// serveGCS speaks as much of the JSON API of Cloud Storage as an object needs.
func (o *object) serveGCS(w http.ResponseWriter, r *http.Request) {
	type resource struct {
		Kind       string            `json:"kind"`
		Bucket     string            `json:"bucket"`
		Name       string            `json:"name"`
		Generation string            `json:"generation"`
		Metadata   map[string]string `json:"metadata"`
	}
	fail := func(status int) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"code":%d,"message":"no"}}`, status)
	}
	show := func() {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(resource{"storage#object", "bucket", "report", strconv.FormatInt(o.generation, 10),
			o.metadata})
	}
	if r.Method == http.MethodGet {
		o.mu.Lock()
		defer o.mu.Unlock()
		if !o.exists {
			fail(http.StatusNotFound)
			return
		}
		show()
		return
	}
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || r.FormValue("uploadType") != "multipart" {
		fail(http.StatusNotImplemented)
		return
	}
	parts := multipart.NewReader(r.Body, params["boundary"])
	var about resource
	head, err := parts.NextPart()
	if err != nil || json.NewDecoder(head).Decode(&about) != nil {
		fail(http.StatusBadRequest)
		return
	}
	media, err := parts.NextPart()
	if err != nil {
		fail(http.StatusBadRequest)
		return
	}
	content, err := io.ReadAll(media)
	if err != nil {
		fail(http.StatusBadRequest)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	current := "0"
	if o.exists {
		current = strconv.FormatInt(o.generation, 10)
	}
	match := r.FormValue("ifGenerationMatch")
	switch written, arrives := o.write(match == "" || match == current, content, about.Metadata); {
	case !arrives:
		hangUp(w)
	case !written:
		fail(http.StatusPreconditionFailed)
	default:
		show()
	}
}

// newS3 is an object on a server of its own.
func newS3(t *testing.T) (*object, fence.Object) {
	t.Helper()
	o := &object{token: func(o *object) int64 {
		line, _, _ := strings.Cut(string(o.content), " lock/report\n")
		token, _ := strconv.ParseInt(line, 10, 64)
		return token
	}}
	server := httptest.NewServer(http.HandlerFunc(o.serveS3))
	t.Cleanup(server.Close)
	client := s3.New(s3.Options{
		BaseEndpoint: &server.URL, UsePathStyle: true, Region: "eu-west-1", HTTPClient: server.Client(),
		Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
		Retryer:     aws.NopRetryer{},
	})
	return o, S3Object{client, "bucket", "report"}
}

// newGCS is one, too.
func newGCS(t *testing.T) (*object, fence.Object) {
	t.Helper()
	o := &object{token: func(o *object) int64 {
		token, _ := strconv.ParseInt(o.metadata[tokenKey], 10, 64)
		return token
	}}
	server := httptest.NewServer(http.HandlerFunc(o.serveGCS))
	t.Cleanup(server.Close)
	t.Setenv("STORAGE_EMULATOR_HOST", strings.TrimPrefix(server.URL, "http://"))
	client, err := storage.NewClient(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return o, GCSObject{client.Bucket("bucket").Object("report")}
}

// onBoth runs a test with the SDK of each.
func onBoth(t *testing.T, test func(t *testing.T, o *object, f fence.Object)) {
	for name, begin := range map[string]func(*testing.T) (*object, fence.Object){"S3": newS3, "GCS": newGCS} {
		t.Run(name, func(t *testing.T) {
			o, f := begin(t)
			test(t, o, f)
		})
	}
}

// of is a lease of the object's lock.
func of(token int64) fence.Lease { return fence.Lease{Subject: "lock/report", Token: token} }

// TestObject: two holders, one after the other, the first again, and one of another lock.
func TestObject(t *testing.T) {
	onBoth(t, func(t *testing.T, o *object, f fence.Object) {
		for i, c := range []struct {
			token int64
			data  string
			stale bool
		}{{41, "a", false}, {41, "b", false}, {42, "b", false}, {41, "c", true}, {42, "d", false}} {
			if err := fence.PutObject(t.Context(), f, of(c.token), []byte(c.data), nil); c.stale != errors.Is(err,
				contracts.CodeStaleToken) || !c.stale && err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
		other := fence.Lease{Subject: "run/report", Token: 43}
		if err := fence.PutObject(t.Context(), f, other, nil, nil); !errors.Is(err, contracts.CodeOtherSubject) {
			t.Errorf("of a run: %v", err)
		}
		if want := []int64{41, 41, 42, 42}; !slices.Equal(o.written, want) || !strings.HasSuffix(string(o.content), "d") {
			t.Errorf("written by %v, %q", o.written, o.content)
		}
	})
}

// TestObjectOfTheSameContent: the next holder writes what is there already. What the first one read before is out of
// date nevertheless.
func TestObjectOfTheSameContent(t *testing.T) {
	onBoth(t, func(t *testing.T, o *object, f fence.Object) {
		if err := fence.PutObject(t.Context(), f, of(41), []byte("same"), nil); err != nil {
			t.Fatal(err)
		}
		_, version, err := f.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := fence.PutObject(t.Context(), f, of(42), []byte("same"), nil); err != nil {
			t.Fatal(err)
		}
		if err := f.Put(t.Context(), []byte("late"), of(41), version); !errors.Is(err, fence.ErrChanged) {
			t.Errorf("%v, and %v wrote", err, o.written)
		}
	})
}

// TestObjectLostResponse: a write whose response was lost is written again, and not taken for that of another.
func TestObjectLostResponse(t *testing.T) {
	onBoth(t, func(t *testing.T, o *object, f fence.Object) {
		o.lose = 1
		err := fence.PutObject(t.Context(), f, of(41), []byte("a"), nil)
		for err != nil && !errors.Is(err, contracts.CodeStaleToken) && t.Context().Err() == nil {
			err = fence.PutObject(t.Context(), f, of(41), []byte("a"), nil) // where the SDK does not
		}
		if err != nil || o.token(o) != 41 {
			t.Errorf("%v, %v wrote", err, o.written)
		}
	})
}

// TestObjectRace: writers at once. Each write is of a token that is not lower than the one before.
func TestObjectRace(t *testing.T) {
	onBoth(t, func(t *testing.T, o *object, f fence.Object) {
		var wait sync.WaitGroup
		for token := range int64(6) {
			wait.Go(func() {
				for n := range 5 {
					err := fence.PutObject(context.WithoutCancel(t.Context()), f, of(1+token), fmt.Append(nil, n), nil)
					if err != nil && !errors.Is(err, contracts.CodeStaleToken) {
						t.Error(err)
					}
				}
			})
		}
		wait.Wait()
		if !slices.IsSorted(o.written) || len(o.written) == 0 || o.token(o) != 6 {
			t.Errorf("%v", o.written)
		}
	})
}
