package gcpfirestore_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/leasehold-dev/leasehold/adapters/gcpfirestore"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// calls are one of each method.
func calls(s docstore.Store) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Get": func(ctx context.Context) error {
			_, err := s.Get(ctx, key("n"))
			return err
		},
		"Write": func(ctx context.Context) error {
			_, err := s.Write(ctx, increment)
			return err
		},
		"List": func(ctx context.Context) error {
			_, err := s.List(ctx, docstore.Query{Kind: "locks", Tenant: "acme"})
			return err
		},
	}
}

// sideBySide runs a test for each call at once.
func sideBySide(s docstore.Store, test func(method string, call func(context.Context) error)) {
	var all sync.WaitGroup
	for method, call := range calls(s) {
		all.Go(func() { test(method, call) })
	}
	all.Wait()
}

// TestErrorsTeach: what cannot pass is answered at once, with what to do about it.
func TestErrorsTeach(t *testing.T) {
	for name, c := range map[string]struct {
		options *firestoretest.Options
		code    codes.Code
		want    string
	}{
		"no database": {&firestoretest.Options{Databases: []string{"projects/test/databases/other"}}, codes.OK,
			"gcloud firestore databases create"},
		"no permission":   {nil, codes.PermissionDenied, "roles/datastore.user"},
		"no credentials":  {nil, codes.Unauthenticated, "gcloud auth application-default login"},
		"Datastore mode":  {nil, codes.FailedPrecondition, "Native mode"},
		"other, such as ": {nil, codes.Unimplemented, "Unimplemented"},
	} {
		t.Run(name, func(t *testing.T) {
			server := firestoretest.Start(t, c.options)
			if c.code != codes.OK {
				server.Inject(firestoretest.Fault{Effect: firestoretest.Fail{Code: c.code}})
			}
			for method, call := range calls(open(t, server, "")) {
				server.ResetCounts()
				err := call(t.Context())
				if err == nil || errors.Is(err, docstore.ErrUnavailable) || !strings.Contains(err.Error(), c.want) ||
					!strings.Contains(err.Error(), "test/databases/(default)") {
					t.Errorf("%s: error %v, want one with %q and the database", method, err, c.want)
				}
				total := 0
				for _, n := range server.Counts() {
					total += n
				}
				if total != 1 {
					t.Errorf("%s: requests %v, want one", method, server.Counts())
				}
			}
		})
	}
}

// TestTimeout: what does not pass ends with the store's timeout as ErrUnavailable, and with the caller's own deadline
// as that.
func TestTimeout(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault firestoretest.Fault
		want  string
	}{
		"down": {firestoretest.Fault{Effect: firestoretest.Fail{Code: codes.Unavailable, Message: "injected"}},
			"injected"},
		"aborted":   {firestoretest.Fault{Effect: firestoretest.Fail{Code: codes.Aborted, Message: "injected"}}, "injected"},
		"no answer": {firestoretest.Fault{Effect: firestoretest.Delay{For: time.Hour}}, "4s at most"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := firestoretest.Start(t, nil)
			s, err := gcpfirestore.Open(t.Context(), &gcpfirestore.Options{
				Project: project, Timeout: 4 * time.Second, ClientOptions: server.ClientOptions(),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			server.Inject(c.fault)
			sideBySide(s, func(method string, call func(context.Context) error) {
				if err := call(t.Context()); !errors.Is(err, docstore.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) ||
					!strings.Contains(err.Error(), c.want) {
					t.Errorf("%s: error %v, want ErrUnavailable with %q", method, err, c.want)
				}
				hasty, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				if err := call(hasty); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, docstore.ErrUnavailable) {
					t.Errorf("%s: error %v, want DeadlineExceeded", method, err)
				}
			})
		})
	}
}

// TestDeadlineDuringCommit: a caller that gives up while its Commit is under way leaves nothing half done.
func TestDeadlineDuringCommit(t *testing.T) {
	server := firestoretest.Start(t, nil)
	s := open(t, server, "")
	server.Inject(firestoretest.Fault{Method: "Commit", Effect: firestoretest.Delay{For: time.Hour}})
	writes := []docstore.Write{increment, {Key: key("m"), Set: docstore.Doc{"n": docstore.Int(1)}}}
	// until it comes as far, however slow the machine is
	for after := 50 * time.Millisecond; server.Count("Commit") == 0; after *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		if _, err := s.Write(ctx, writes...); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want DeadlineExceeded", err)
		}
		cancel()
	}
	snap, err := s.Get(t.Context(), key("n"), key("m"))
	if err != nil || snap.Docs[0] != nil || snap.Docs[1] != nil {
		t.Errorf("%v, error %v, want no documents", snap.Docs, err)
	}
}

// TestContention: losing to others again and again ends with the time of the call, which is enough for the first loss
// on a busy machine, and the error says so whatever the call was doing when its time was up: waiting, reading or
// writing.
func TestContention(t *testing.T) {
	t.Parallel()
	lose := firestoretest.Fail{Code: codes.Aborted}
	hang := firestoretest.Delay{For: time.Hour}
	for name, faults := range map[string][]firestoretest.Fault{
		"waiting": {{Method: "Commit", Effect: lose}},
		"writing": {{Method: "Commit", Times: 1, Effect: lose}, {Method: "Commit", Effect: hang}},
		"reading": {{Method: "BatchGetDocuments", Skip: 1, Effect: hang}, {Method: "Commit", Effect: lose}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := firestoretest.Start(t, nil)
			s, err := gcpfirestore.Open(t.Context(), &gcpfirestore.Options{
				Project: project, Timeout: 4 * time.Second, ClientOptions: server.ClientOptions(),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for _, f := range faults {
				server.Inject(f)
			}
			if _, err := s.Write(t.Context(), increment); !errors.Is(err, docstore.ErrUnavailable) ||
				!strings.Contains(err.Error(), "others write the same documents") {
				t.Errorf("error %v, want ErrUnavailable", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if _, err := s.Write(ctx, increment); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v, want DeadlineExceeded", err)
			}
		})
	}
}

// TestGivesUp: a service that goes on failing is not asked for ever.
func TestGivesUp(t *testing.T) {
	t.Parallel()
	server := firestoretest.Start(t, nil)
	s := open(t, server, "")
	server.Inject(firestoretest.Fault{Method: "Commit", Effect: firestoretest.Fail{Code: codes.Unavailable}})
	if _, err := s.Write(t.Context(), increment); !errors.Is(err, docstore.ErrUnavailable) {
		t.Errorf("error %v, want ErrUnavailable", err)
	}
	if got := server.Count("Commit"); got != 10 {
		t.Errorf("%d commits, want 10", got)
	}
}

// TestNobodyListens: an emulator that is not there is a quick error that names it.
func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, scheme := range []string{"", "http://"} {
		t.Setenv("FIRESTORE_EMULATOR_HOST", scheme+addr)
		s, err := gcpfirestore.Open(t.Context(), &gcpfirestore.Options{Project: project, Timeout: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		sideBySide(s, func(method string, call func(context.Context) error) {
			if err := call(t.Context()); !errors.Is(err, docstore.ErrUnavailable) || !strings.Contains(err.Error(), addr) {
				t.Errorf("%s: error %v, want ErrUnavailable with the address", method, err)
			}
			hasty, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := call(hasty); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: error %v, want DeadlineExceeded", method, err)
			}
		})
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestEmulatorVariable: FIRESTORE_EMULATOR_HOST is enough, and an option has the last word.
func TestEmulatorVariable(t *testing.T) {
	server, other := firestoretest.Start(t, nil), firestoretest.Start(t, nil)
	t.Setenv("FIRESTORE_EMULATOR_HOST", server.Addr())
	t.Setenv("GOOGLE_CLOUD_PROJECT", project)
	s, err := gcpfirestore.Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Write(t.Context(), increment); err != nil {
		t.Fatal(err)
	}
	if got := n(t, open(t, server, "")); got != 1 {
		t.Errorf("n is %d in the emulator of the variable, want 1", got)
	}
	if got := n(t, open(t, other, "")); got != 0 {
		t.Errorf("n is %d in the other, want 0", got)
	}
}

func TestOpenRefuses(t *testing.T) {
	server := firestoretest.Start(t, nil)
	for name, c := range map[string]struct {
		options gcpfirestore.Options
		want    string
	}{
		"root a collection": {gcpfirestore.Options{Root: "leasehold"}, `Root "leasehold" names a collection`},
		"root with a gap":   {gcpfirestore.Options{Root: "a//b/c"}, `"" cannot be the ID`},
		"root with a slash": {gcpfirestore.Options{Root: "/a"}, `"" cannot be the ID`},
		"root reserved":     {gcpfirestore.Options{Root: "a/__b__"}, `"__b__" cannot be the ID`},
		"root dots":         {gcpfirestore.Options{Root: "a/.."}, `".." cannot be the ID`},
		"root too long": {gcpfirestore.Options{Root: "a/" + strings.Repeat("b", 1500)},
			"Root has 1502 bytes, 1500 at most"},
		"negative timeout":   {gcpfirestore.Options{Timeout: -time.Second}, "Timeout is -1s"},
		"project not an ID":  {gcpfirestore.Options{Project: "projects/x"}, `Project "projects/x" is not the ID`},
		"database not an ID": {gcpfirestore.Options{Database: "a/b"}, `Database "a/b" is not the ID`},
	} {
		if c.options.Project == "" {
			c.options.Project = project
		}
		c.options.ClientOptions = server.ClientOptions()
		if _, err := gcpfirestore.Open(t.Context(), &c.options); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := gcpfirestore.Open(ended, &gcpfirestore.Options{Project: project}); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: error %v, want Canceled", err)
	}
	t.Setenv("FIRESTORE_EMULATOR_HOST", server.Addr())
	t.Setenv("GOOGLE_CLOUD_PROJECT", "")
	if _, err := gcpfirestore.Open(t.Context(), nil); err == nil ||
		!strings.Contains(err.Error(), "GOOGLE_CLOUD_PROJECT") {
		t.Errorf("no project: error %v", err)
	}
}

// TestNoCredentials: without any, Open says what to do.
func TestNoCredentials(t *testing.T) {
	t.Setenv("FIRESTORE_EMULATOR_HOST", "")
	t.Setenv("GOOGLE_CLOUD_PROJECT", "")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/key.json")
	for _, o := range []*gcpfirestore.Options{nil, {Project: project}} {
		if _, err := gcpfirestore.Open(t.Context(), o); err == nil ||
			!strings.Contains(err.Error(), "gcloud auth application-default login") {
			t.Errorf("error %v, want one that says how to log in", err)
		}
	}
}

// TestTooLarge: a document of more than Firestore takes is rejected with the reason, and so is a step; nothing is
// written.
func TestTooLarge(t *testing.T) {
	s := open(t, firestoretest.Start(t, nil), "")
	most := docstore.Bytes(make([]byte, docstore.MaxBytes))
	document := []docstore.Write{{Key: key("a"), Set: docstore.Doc{"v": most, "w": most, "x": most, "y": most}}}
	step := make([]docstore.Write, 41)
	for i := range step {
		step[i] = docstore.Write{Key: key(strconv.Itoa(i)), Set: docstore.Doc{"x": most}}
	}
	for name, writes := range map[string][]docstore.Write{"a document": document, "a step": step} {
		if _, err := s.Write(t.Context(), writes...); !errors.Is(err, docstore.ErrInvalid) ||
			!strings.Contains(err.Error(), "1 MiB") {
			t.Errorf("%s: %v", name, err)
		}
		for _, w := range writes {
			if snap, err := s.Get(t.Context(), w.Key); err != nil || snap.Docs[0] != nil {
				t.Errorf("%s: %d fields are stored, %v", name, len(snap.Docs[0]), err)
			}
		}
	}
}
