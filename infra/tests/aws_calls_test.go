package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	sdkaws "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/emulator/sqstest"
	"github.com/leasehold-dev/leasehold/proof/lambdatest"
	"github.com/leasehold-dev/leasehold/repo/analysis"
)

// built is the program of a release that Lambda starts, for this machine, with the other one beside it.
func built(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, tags := range map[string]string{"bootstrap": ",leasehold.noqueues", "queues": ""} {
		c := exec.CommandContext(t.Context(), "go", "build", "-tags", "lambda.norpc,leasehold.noprofiles"+tags,
			"-o", filepath.Join(dir, name), "./functions/aws/lambda")
		c.Dir = "../.."
		c.Env = append(c.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return filepath.Join(dir, "bootstrap")
}

// cloud is DynamoDB, SQS and STS for programs, and remembers what was asked of them, as actions of IAM.
type cloud struct {
	URL string
	db  *dynamodbtest.Server

	mu    sync.Mutex
	asked map[string]bool
}

func startCloud(t testing.TB) *cloud {
	s := &cloud{db: dynamodbtest.New(nil), asked: map[string]bool{}}
	queues := sqstest.New(nil)
	mux := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		service, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		switch {
		case service == "AmazonSQS":
			s.note("sqs:" + op)
			queues.ServeHTTP(w, r)
		case strings.HasPrefix(service, "DynamoDB"):
			for _, action := range actionsOf(t, op, body) {
				s.note("dynamodb:" + action)
			}
			s.db.ServeHTTP(w, r)
		case strings.Contains(string(body), "Action=GetWebIdentityToken"):
			s.note("sts:GetWebIdentityToken")
			w.Header().Set("Content-Type", "text/xml")
			_, _ = fmt.Fprintf(
				w, `<GetWebIdentityTokenResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetWebIdentityTokenResult><WebIdentityToken>token</WebIdentityToken>`+
					`<Expiration>%s</Expiration></GetWebIdentityTokenResult></GetWebIdentityTokenResponse>`, time.Now().Add(
					time.Hour).UTC().Format(time.RFC3339))
		default:
			t.Errorf("a request that is not known: %s %s %s", r.Method, r.URL, body)
			w.WriteHeader(http.StatusNotImplemented)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// actionsOf are the actions that IAM asks for when an operation of DynamoDB is called.
func actionsOf(t testing.TB, op string, body []byte) []string {
	switch op {
	case "TransactGetItems":
		return []string{"GetItem"}
	case "TransactWriteItems":
		var in struct{ TransactItems []map[string]json.RawMessage }
		if err := json.Unmarshal(body, &in); err != nil {
			t.Error(err)
		}
		var all []string
		for _, item := range in.TransactItems {
			for kind := range item {
				all = append(all, map[string]string{"Update": "UpdateItem", "Delete": "DeleteItem", "Put": "PutItem",
					"ConditionCheck": "ConditionCheckItem"}[kind])
			}
		}
		return all
	default:
		return []string{op}
	}
}

func (s *cloud) note(action string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[action] = true
}

// since returns what was asked since the last call.
func (s *cloud) since() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Sorted(maps.Keys(s.asked))
	clear(s.asked)
	return all
}

// caller sends requests to the function api, each of which must succeed.
type caller struct {
	t    testing.TB
	http http.Client
}

// call returns the response's members.
func (c *caller) call(method, path string, body map[string]any) map[string]any {
	c.t.Helper()
	encoded, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(encoded)
	}
	r, err := http.NewRequestWithContext(c.t.Context(), method, "https://api.example"+path, content)
	if err != nil {
		c.t.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	w, err := c.http.Do(r)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer w.Body.Close()
	response, err := io.ReadAll(w.Body)
	if err != nil || w.StatusCode >= http.StatusMultipleChoices {
		c.t.Errorf("%s %s %s: %d %s, %v", method, path, encoded, w.StatusCode, response, err)
	}
	var members map[string]any
	if strings.HasPrefix(string(response), "{") {
		if err := json.Unmarshal(response, &members); err != nil {
			c.t.Errorf("%s %s: %v", method, path, err)
		}
	}
	return members
}

// member is a value inside the members of a response, by its path.
func member(t testing.TB, v any, path ...string) any {
	t.Helper()
	for _, name := range path {
		m, ok := v.(map[string]any)
		if !ok || m[name] == nil {
			t.Fatalf("no %v in %v", path, v)
		}
		v = m[name]
	}
	return v
}

type object = map[string]any

// everything calls all that the API offers.
func (c *caller) everything() {
	lock := "/v1/tenants/acme/locks/a"
	lease := c.call("POST", lock+"/acquire", object{"request_id": "1", "owner_id": "o", "ttl_seconds": 60})
	token := member(c.t, lease, "fencing_token")
	c.call("POST", lock+"/renew", object{"request_id": "2", "owner_id": "o", "ttl_seconds": 60, "fencing_token": token})
	c.call("POST", lock+"/force-release", object{"request_id": "3", "owner_id": "admin", "reason": "test"})
	for key, mode := range map[string]object{
		"shared":  {"mode": "shared", "ttl_seconds": 60},
		"permits": {"mode": "permits", "limit": 2, "ttl_seconds": 60},
		"rate":    {"mode": "rate", "limit": 2, "window_seconds": 60},
	} {
		for _, id := range []string{"1", "2"} {
			mode["request_id"], mode["owner_id"] = id, "o"+id
			c.call("POST", "/v1/tenants/acme/locks/"+key+"/acquire", mode)
		}
	}
	c.call("GET", lock, nil)
	c.call("GET", "/v1/tenants/acme/locks", nil)
	c.call("POST", "/v1/tenants/acme/lock-sets/acquire", object{"request_id": "1", "owner_id": "o",
		"lock_keys": []string{"x", "y"}, "ttl_seconds": 60})

	c.call("POST", "/v1/tenants/acme/fences/f/check", object{"fencing_token": token, "subject": "lock/k"})
	c.call("GET", "/v1/tenants/acme/fences/f", nil)
	c.call("POST", "/v1/tenants/acme/fences/f/reset", object{"owner_id": "admin", "highest_token": token,
		"reason": "test"})

	c.call("PUT", "/v1/analyses/r1", nil)
	run := c.call("POST", "/v1/analyses/r1/lock", object{"owner_id": "w", "request_id": "1", "ttl_seconds": 60})
	c.call("POST", "/v1/analyses/r1/refresh", object{"owner_id": "w", "fencing_token": member(c.t, run, "fencing_token"),
		"ttl_seconds": 60})
	c.call("POST", "/v1/analyses/r1/finish", object{"owner_id": "w", "fencing_token": member(c.t, run, "fencing_token"),
		"status": "FAILED"})
	c.call("GET", "/v1/analyses/r1", nil)
	c.call("GET", "/v1/analyses", nil)
	begun := c.call("POST", "/v1/tenants/acme/runs/n/begin", object{"owner_id": "w", "request_id": "1", "ttl_seconds": 60})
	c.call("POST", "/v1/tenants/acme/runs/n/finish",
		object{"owner_id": "w", "fencing_token": member(c.t, begun, "fencing_token"), "status": "READY"})
	c.call("GET", "/v1/tenants/acme/runs", nil)

	c.call("POST", "/v1/machine-ids/lease", object{"serviceId": "default", "meta": object{}, "throughputPerMs": 512})
	c.call("GET", "/v1/machine-ids", nil)
	c.call("GET", "/v1/machine-ids/spaces/default", nil)
	c.call("POST", "/v1/machine-ids/force-release", object{"serviceId": "default", "first": 0, "last": 63,
		"reason": "test"})

	cluster := "/v1/tenants/acme/clusters/c"
	one := c.call("POST", cluster+"/members/m1/join", object{"request_id": "1", "kinds": []string{"room"},
		"address": "10.0.0.5:9000", "ttl_seconds": 60})
	incarnation := member(c.t, one, "incarnation")
	c.call("POST", cluster+"/members/m1/heartbeat", object{"incarnation": incarnation, "seq": 1, "ttl_seconds": 60})
	claimed := c.call("POST", cluster+"/activations/room/1/claim", object{"request_id": "1", "lock_ttl_seconds": 60})
	held := object{"member": member(c.t, one, "member"), "incarnation": incarnation,
		"fencing_token": member(c.t, claimed, "activation", "fencing_token")}
	c.call("POST", cluster+"/activations/room/1/activated", held)
	state := maps.Clone(held)
	maps.Copy(state, object{"request_id": "2", "state_version": 0, "state": "e30="})
	c.call("POST", cluster+"/activations/room/1/state", state)
	held["reason"] = "test"
	c.call("POST", cluster+"/activations/room/1/deactivate", held)
	for _, path := range []string{"/members", "/topology", "/placements/room/1", "/activations", "/activations/room/1",
		"/events"} {
		c.call("GET", cluster+path, nil)
	}
	c.call("POST", cluster+"/members/m1/offer", object{"incarnation": incarnation, "request_id": "3",
		"kinds": []string{"room"}})
	c.call("POST", cluster+"/members/m1/drain", object{"incarnation": incarnation})
	c.call("POST", cluster+"/members/m1/leave", object{"incarnation": incarnation})
	for _, path := range []string{"/v1/tenants/acme/clusters", "/v1/caller", "/healthz", "/readyz", "/openapi.json"} {
		c.call("GET", path, nil)
	}
}

// TestCalls: the actions that the modules grant are those that the programs ask for, all of them and no others.
func TestCalls(t *testing.T) {
	t.Parallel()
	cloud := startCloud(t)
	key := credentials.NewStaticCredentialsProvider("test", "test", "")
	client := dynamodb.New(dynamodb.Options{Region: region, BaseEndpoint: &cloud.URL, Credentials: key})
	if _, err := awsdynamodb.Open(t.Context(), "leasehold", &awsdynamodb.Options{Client: client, CreateTable: true,
		Indexes: []string{analysis.ExpiryField}}); err != nil {
		t.Fatal(err)
	}
	work := workServer(t)
	bootstrap := built(t)
	env := []string{"LEASEHOLD_TABLE=leasehold", "AWS_ENDPOINT_URL=" + cloud.URL}
	cloud.since()
	got := map[string][]string{}

	api := lambdatest.Start(t, bootstrap, "api", append(env, "LEASEHOLD_FRONT_DOOR=http-api",
		"LEASEHOLD_MAX_LOCKS_PER_TENANT=1000", "LEASEHOLD_MAX_RUNS_PER_TENANT=1000",
		"LEASEHOLD_MAX_CLUSTERS_PER_TENANT=1000", "LEASEHOLD_MAX_IDENTITIES_PER_CLUSTER=1000", "LEASEHOLD_RECORD_REFUSALS=1s")...)
	claims := map[string]string{"sub": "caller", "tenant_id": "acme",
		"scope": "leasehold:admin leasehold:operate leasehold:worker leasehold:ids"}
	c := &caller{t: t, http: http.Client{Transport: lambdatest.NewHTTPAPI(claims, api)}}
	c.everything()
	got["api"] = cloud.since()

	// A day later than it is, as far as the events of the cluster say: the sweep removes them.
	table := sdkaws.String("leasehold")
	out, err := client.Scan(t.Context(), &dynamodb.ScanInput{TableName: table})
	if err != nil {
		t.Fatal(err)
	}
	old := 0
	for _, item := range out.Items {
		if strings.HasPrefix(textOf(item["_pk"]), "placement_events/") {
			old++
			item["at"] = &types.AttributeValueMemberS{Value: "2026-01-01T00:00:00.000Z"}
			if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: table, Item: item}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if old == 0 {
		t.Fatal("the cluster has no events")
	}
	// A member that is gone with its activation, and an analysis whose worker is gone.
	c.call("POST", "/v1/tenants/acme/clusters/c/members/m2/join",
		object{"request_id": "1", "kinds": []string{"room"}, "address": "10.0.0.6:9000", "ttl_seconds": 1})
	c.call("POST", "/v1/tenants/acme/clusters/c/activations/room/2/claim",
		object{"request_id": "1", "lock_ttl_seconds": 1})
	c.call("PUT", "/v1/analyses/r2", nil)
	c.call("POST", "/v1/analyses/r2/lock", object{"owner_id": "w", "request_id": "1", "ttl_seconds": 1})
	c.call("PUT", "/v1/analyses/r3", nil)
	queue, err := cloud.queue(t)
	if err != nil {
		t.Fatal(err)
	}
	cloud.since()
	env = append(env, "LEASEHOLD_QUEUE_URL="+queue)
	sweep := lambdatest.Start(t, bootstrap, "sweep", env...)
	type counts struct{ Requeued, Evicted, Freed, Removed int }
	var all counts
	// a lock and a lease last for a second
	for all.Requeued == 0 || all.Evicted == 0 || all.Freed == 0 || all.Removed == 0 {
		r := sweep.Invoke(t, []byte(`{"detail-type":"Scheduled Event"}`), time.Minute)
		var done struct {
			counts

			Clusters counts
		}
		if err := json.Unmarshal(r.Body, &done); err != nil || r.Failed {
			t.Fatalf("sweep: %v, %s", err, r.Body)
		}
		all.Requeued += done.Requeued
		all.Evicted, all.Freed, all.Removed = all.Evicted+done.Clusters.Evicted, all.Freed+done.Clusters.Freed,
			all.Removed+done.Clusters.Removed
		time.Sleep(50 * time.Millisecond) // until the next look
	}
	got["sweep"] = cloud.since()

	worker := lambdatest.Start(t, bootstrap, "worker", append(slices.DeleteFunc(env, func(kv string) bool {
		return strings.HasPrefix(kv, "LEASEHOLD_QUEUE_URL=")
	}),
		"LEASEHOLD_TARGET_URL="+work, "LEASEHOLD_TARGET_AUDIENCE=work")...)
	e := events.SQSEvent{Records: []events.SQSMessage{{
		MessageId: "1", ReceiptHandle: cloud.receive(t, queue), Body: `{"analysisId":"r3"}`, EventSource: "aws:sqs",
		EventSourceARN: "arn:aws:sqs:us-east-1:000000000000:analyses",
		Attributes:     map[string]string{"ApproximateReceiveCount": "1"},
	}}}
	payload, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	cloud.since()
	if r := worker.Invoke(t, payload, time.Minute); r.Failed || string(r.Body) != `{"batchItemFailures":[]}` {
		t.Errorf("worker: %s", r.Body)
	}
	got["worker"] = cloud.since()

	// The queue of this test has no dead-letter queue, so nothing is sent there.
	got["worker"] = slices.Sorted(slices.Values(append(got["worker"], "sqs:SendMessage")))
	for handler, want := range calls {
		if !slices.Equal(got[handler], want) {
			t.Errorf("function %s calls\n%q, and is granted\n%q", handler, got[handler], want)
		}
	}
}

// workServer is what the worker calls, at the URL that it returns.
func workServer(t testing.TB) string {
	server := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	t.Cleanup(server.Close)
	return server.URL
}

func textOf(v types.AttributeValue) string {
	s, ok := v.(*types.AttributeValueMemberS)
	if !ok {
		return ""
	}
	return s.Value
}

// queue creates the queue of analyses with a message, and returns its URL.
func (s *cloud) queue(t *testing.T) (string, error) {
	client := s.sqs()
	out, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: sdkaws.String("analyses")})
	if err != nil {
		return "", err
	}
	_, err = client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: out.QueueUrl,
		MessageBody: sdkaws.String(`{"analysisId":"r3"}`)})
	return sdkaws.ToString(out.QueueUrl), err
}

// receive takes the message, as Lambda does for a worker, and returns its receipt.
func (s *cloud) receive(t *testing.T, queue string) string {
	t.Helper()
	out, err := s.sqs().ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &queue})
	if err != nil || len(out.Messages) == 0 {
		t.Fatalf("no message: %v", err)
	}
	return sdkaws.ToString(out.Messages[0].ReceiptHandle)
}

func (s *cloud) sqs() *sqs.Client {
	return sqs.New(sqs.Options{Region: region, BaseEndpoint: &s.URL,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
}
