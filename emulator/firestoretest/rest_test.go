package firestoretest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"

	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
)

// call makes a request of HTTP/1 with a Host header, the server's address if it is empty.
func call(t *testing.T, addr, method, path, host string) (int, string) {
	t.Helper()
	req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, nil))
	req.Host = host
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode, string(must[[]byte](t)(io.ReadAll(res.Body)))
}

// Clean-up code calls this between tests, as it does with the official emulator.
func TestClearByREST(t *testing.T) {
	s, c := start(t, &firestoretest.Options{Databases: []string{database, "projects/other/databases/(default)"}})
	stub := raw(t, s)
	wantCode(t, plain(t, stub, set("locks/a", 1)), codes.OK)
	tx := begin(t, stub, nil)
	tx.mustGet("locks/a", 1)
	_, err := stub.Commit(t.Context(), &pb.CommitRequest{Database: "projects/other/databases/(default)", Writes: []*pb.Write{{Operation: &pb.Write_Update{
		Update: &pb.Document{Name: "projects/other/databases/(default)/documents/locks/a"}}}}})
	wantCode(t, err, codes.OK)

	for path, want := range map[string]int{
		"/emulator/v1/projects/unknown/databases/(default)/documents":          http.StatusNotFound,
		"/emulator/v1/projects/test-project/databases/%28default%29/documents": http.StatusOK,
	} {
		if code, body := call(t, s.Addr(), http.MethodDelete, path, ""); code != want || !json.Valid([]byte(body)) {
			t.Fatalf("%s: %d %s", path, code, body)
		}
	}
	_, err = c.Doc("locks/a").Get(t.Context())
	wantCode(t, err, codes.NotFound)
	wantCode(t, tx.commit(), codes.InvalidArgument, closed)
	_, err = stub.GetDocument(t.Context(), &pb.GetDocumentRequest{Name: "projects/other/databases/(default)/documents/locks/a"})
	wantCode(t, err, codes.OK) // another database keeps what it has
	if code, body := call(t, s.Addr(), http.MethodGet, "/", ""); code != http.StatusOK || body != "Ok\n" {
		t.Fatalf("health check: %d %q", code, body)
	}
}

// What is not there of REST is rejected in the form that Google's APIs have, and names what is.
func TestRESTThatIsNotThere(t *testing.T) {
	s, _ := start(t, nil)
	for _, path := range []string{
		"GET /v1/projects/p/databases/(default)/documents/a/b", "POST /v1/projects/p/databases/(default)/documents:commit",
		"POST /google.firestore.v1.Firestore/Write/channel", "PUT /emulator/v1/projects/p:securityRules",
	} {
		method, target, _ := strings.Cut(path, " ")
		code, body := call(t, s.Addr(), method, target, "")
		var problem struct {
			Error struct {
				Code            int
				Status, Message string
			}
		}
		if err := json.Unmarshal([]byte(body), &problem); err != nil || code != http.StatusNotImplemented || problem.Error.Code != code ||
			problem.Error.Status != "UNIMPLEMENTED" || !strings.Contains(problem.Error.Message, "gRPC") {
			t.Errorf("%s: %d %s (%v)", path, code, body, err)
		}
	}
}

// A page in a browser whose site's name leads to this machine gets nothing.
func TestRESTForAnotherHost(t *testing.T) {
	s, c := start(t, nil)
	stub := raw(t, s)
	wantCode(t, plain(t, stub, set("locks/a", 1)), codes.OK)
	const path = "/emulator/v1/projects/test-project/databases/(default)/documents"
	for _, host := range []string{"evil.example", "evil.example:8081", "127.0.0.1.evil.example", "192.0.2.1"} {
		if code, body := call(t, s.Addr(), http.MethodDelete, path, host); code != http.StatusMisdirectedRequest || !strings.Contains(body, host) {
			t.Errorf("%s: %d %s", host, code, body)
		}
	}
	wantData(t, c.Doc("locks/a"), m{"n": int64(1)})
	open := firestoretest.Start(t, &firestoretest.Options{InsecureListenAnywhere: true})
	for server, hosts := range map[string][]string{s.Addr(): {"localhost", "LOCALHOST:1", "[::1]:8081", "app.localhost:1"}, open.Addr(): {"firestore:8081", "192.0.2.1"}} {
		for _, host := range hosts {
			if code, body := call(t, server, http.MethodDelete, path, host); code != http.StatusOK {
				t.Errorf("%s: %d %s", host, code, body)
			}
		}
	}
}

func TestListenOnEveryAddress(t *testing.T) {
	s, err := firestoretest.Listen("0.0.0.0:0", &firestoretest.Options{InsecureListenAnywhere: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, port, err := net.SplitHostPort(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if code, _ := call(t, "127.0.0.1:"+port, http.MethodGet, "/", "container:"+port); code != http.StatusOK {
		t.Fatalf("status %d", code)
	}
}

// A connection that says nothing, or ends at once, is no obstacle: not to others and not to Close.
func TestConnectionsThatSayNothing(t *testing.T) {
	s, err := firestoretest.Listen("", nil)
	if err != nil {
		t.Fatal(err)
	}
	var dialer net.Dialer
	for i := range 3 {
		conn := must[net.Conn](t)(dialer.DialContext(t.Context(), "tcp", s.Addr()))
		defer conn.Close()
		if i == 1 {
			_, _ = fmt.Fprint(conn, "P") // of POST or of PRI
		}
		if i == 2 {
			_ = conn.Close()
		}
	}
	wantCode(t, plain(t, raw(t, s), set("locks/a", 1)), codes.OK)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
