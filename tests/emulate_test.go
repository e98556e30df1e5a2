package tests

import (
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	taskspb "cloud.google.com/go/cloudtasks/apiv2/cloudtaskspb"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// TestEmulators: each emulator serves as a command and exits with code 0 on Ctrl-C.
func TestEmulators(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]struct {
		args                   []string
		target, body, response string
	}{
		"dynamodb": {[]string{"dynamodb"}, "DynamoDB_20120810.ListTables", "{}", `{"TableNames":[]}`},
		"sqs": {[]string{"sqs"}, "AmazonSQS.GetQueueUrl", `{"QueueName":"analyses"}`,
			`{"QueueUrl":"http://queues.localhost/000000000000/analyses"}`},
		"sqs, FIFO": {[]string{"sqs", "--queue", "q", "--queue", "q.fifo"}, "AmazonSQS.GetQueueUrl", `{"QueueName":"q.fifo"}`,
			`{"QueueUrl":"http://queues.localhost/000000000000/q.fifo"}`},
	} {
		t.Run(name, func(t *testing.T) {
			p := launch(t, nil, append(append([]string{"emulate"}, call.args...), "--listen", "127.0.0.1:0")...)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url, strings.NewReader(call.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Host = "queues.localhost"
			r.Header.Set("Content-Type", "application/x-amz-json-1.0")
			r.Header.Set("X-Amz-Target", call.target)
			r.Header.Set("Authorization",
				"AWS4-HMAC-SHA256 Credential=local/20260101/local/x/aws4_request, SignedHeaders=host, Signature=0")
			r.Header.Set("X-Amz-Date", "20260101T000000Z")
			w, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Body.Close()
			if body, err := io.ReadAll(w.Body); err != nil || w.StatusCode != http.StatusOK || string(body) != call.response {
				t.Errorf("%d %s, %v", w.StatusCode, body, err)
			}
			interrupt(t, p)
		})
	}
	t.Run("firestore", func(t *testing.T) {
		p := launch(t, nil, "emulate", "firestore", "--listen", "127.0.0.1:0")
		conn, err := grpc.NewClient(p.url, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		const document = "projects/demo/databases/(default)/documents/locks/a"
		found, err := pb.NewFirestoreClient(conn).BatchGetDocuments(t.Context(), &pb.BatchGetDocumentsRequest{
			Database: "projects/demo/databases/(default)", Documents: []string{document},
		})
		if err != nil {
			t.Fatal(err)
		}
		if res, err := found.Recv(); err != nil || res.GetMissing() != document {
			t.Errorf("%v, %v", res, err)
		}
		interrupt(t, p)
	})
	t.Run("cloudtasks", func(t *testing.T) {
		p := launch(t, nil, "emulate", "cloudtasks", "--listen", "127.0.0.1:0", "--queue", "projects/p/locations/l/queues/q")
		conn, err := grpc.NewClient(p.url, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		q, err := taskspb.NewCloudTasksClient(conn).GetQueue(t.Context(),
			&taskspb.GetQueueRequest{Name: "projects/p/locations/l/queues/q"})
		if err != nil || q.GetState() != taskspb.Queue_RUNNING {
			t.Errorf("%v, %v", q, err)
		}
		interrupt(t, p)
	})
	t.Run("no name of a queue", func(t *testing.T) {
		if code, stdout, stderr := run(t, nil, "emulate", "sqs", "--listen", "127.0.0.1:0", "--queue", "a b"); code != 2 ||
			stdout != "" || !strings.Contains(stderr, `--queue: sqs: queue "a b"`) {
			t.Errorf("%d %q %q", code, stdout, stderr)
		}
	})
	t.Run("public address", func(t *testing.T) {
		for _, args := range [][]string{{"emulate", "dynamodb", "--listen", "0.0.0.0:0"},
			{"emulate", "firestore", "--listen", ":0"}, {"emulate", "cloudtasks", "--listen", "0.0.0.0:0"},
			{"emulate", "sqs", "--listen", ":0"}} {
			if code, stdout, stderr := run(t, nil, args...); code != 2 || stdout != "" ||
				!strings.Contains(stderr, "127.0.0.1") {
				t.Errorf("%v: %d %q %q", args, code, stdout, stderr)
			}
		}
	})
}

// TestListenAnywhere: with the flag for containers, the server and the emulators accept requests under any host name,
// and warn.
func TestListenAnywhere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args   []string
		path   string
		status int // of a GET under a foreign host name
	}{
		"serve":     {[]string{"serve", "--store", "memory"}, "/v1/tenants/default/locks", http.StatusOK},
		"dynamodb":  {[]string{"emulate", "dynamodb"}, "/", 0},
		"sqs":       {[]string{"emulate", "sqs"}, "/", 0},
		"firestore": {[]string{"emulate", "firestore"}, "", 0},
		"tasks":     {[]string{"emulate", "cloudtasks"}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := launch(t, nil, append(c.args, "--listen", "0.0.0.0:0", "--insecure-listen-anywhere")...)
			address, isHTTP := strings.CutPrefix(p.url, "http://")
			if !strings.HasPrefix(address, "127.0.0.1:") {
				t.Errorf("listening on %s, which programs on this machine cannot use", p.url)
			}
			if isHTTP {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+c.path, nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Host = "leasehold.compose:8080"
				w, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				w.Body.Close()
				if c.status != 0 && w.StatusCode != c.status || w.StatusCode == http.StatusForbidden ||
					w.StatusCode == http.StatusMisdirectedRequest {
					t.Errorf("%d", w.StatusCode)
				}
			} else if conn, err := net.Dial("tcp", address); err != nil {
				t.Error(err)
			} else {
				conn.Close()
			}
			interrupt(t, p)
			if !strings.Contains(p.stderr.String(), "INSECURE") {
				t.Errorf("no warning: %s", p.stderr.Bytes())
			}
		})
	}
}

// interrupt presses Ctrl-C.
func interrupt(t *testing.T, p *process) {
	t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := <-p.ended; err != nil {
		t.Errorf("ended with %v\n%s", err, p.stderr.Bytes())
	}
}
