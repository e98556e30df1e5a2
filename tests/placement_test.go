package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"syscall"
	"testing"
)

// plainCluster is a cluster of a running server, as any HTTP client sees it.
type plainCluster struct {
	t   *testing.T
	url string
}

// call sends a request and returns the status and the JSON of the response.
func (c plainCluster) call(method, path, body string) (int, map[string]any) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		c.t.Fatalf("%s %s: %v in %s", method, path, err, b)
	}
	return a.StatusCode, m
}

// ok sends a request that succeeds.
func (c plainCluster) ok(method, path, body string) map[string]any {
	c.t.Helper()
	status, m := c.call(method, path, body)
	if status != http.StatusOK {
		c.t.Fatalf("%s %s %s: %d %v", method, path, body, status, m)
	}
	return m
}

// rejected sends a request that is rejected with a code.
func (c plainCluster) rejected(path, body, code string) {
	c.t.Helper()
	if status, m := c.call(http.MethodPost, path, body); m["code"] != code {
		c.t.Errorf("%s: %d %v, want %s", path, status, m, code)
	}
}

// owns is how the owner of an activation names it.
func owns(a map[string]any) string {
	return fmt.Sprintf(`"member":%q,"incarnation":%v,"fencing_token":%v`, a["member"], a["incarnation"],
		a["fencing_token"])
}

// TestPlacementOverHTTP, PLC-ONE-1, PLC-ONE-5: three members, an identity on one of them, which ends without a word.
// Another takes over with a higher token and the state, and what the first one still sends is rejected. A request that
// waits for events does not keep the server from stopping.
func TestPlacementOverHTTP(t *testing.T) {
	t.Parallel()
	p := start(t, "--data", t.TempDir(), "--shutdown-timeout", "5s")
	c := plainCluster{t, p.url + "/v1/tenants/acme/clusters/chat"}
	members := map[string]string{}
	for name, ttl := range map[string]int{"alice": 3600, "bob": 3600, "victim": 2} {
		members[name] = fmt.Sprint(c.ok(http.MethodPost, "/members/"+name+"/join",
			fmt.Sprintf(`{"request_id":"j1","kinds":["room"],"partitions":64,"ttl_seconds":%d}`, ttl))["incarnation"])
	}
	topology := c.ok(http.MethodGet, "/topology", "")
	if all, _ := topology["members"].([]any); len(all) != 3 || topology["status"] != "READY" ||
		topology["epoch"] != json.Number("3") {
		t.Fatalf("%v", topology)
	}

	// Whichever room is placed on the member that is to end. A member claims for itself, so that no time passes in
	// between.
	room, claimed := "", map[string]any(nil)
	for i := range 200 {
		room = fmt.Sprint("/activations/room/r", i)
		status, m := c.call(http.MethodPost, room+"/claim",
			fmt.Sprintf(`{"request_id":"c1","member":"victim","incarnation":%s}`, members["victim"]))
		if status == http.StatusOK {
			claimed, _ = m["activation"].(map[string]any)
			break
		}
		if m["code"] != "MEMBER_INELIGIBLE" || m["ineligible"] != "PLACED_ON_OTHER" {
			t.Fatalf("%d %v", status, m)
		}
	}
	if claimed == nil || claimed["phase"] != "ACTIVE" {
		t.Fatalf("%v", claimed)
	}
	c.ok(http.MethodPost, room+"/state", "{"+owns(claimed)+`,"request_id":"s1","state_version":0,"state":"b25l"}`)

	// No heartbeat comes. Those who ask get nothing until its lease has ended, and then evict it.
	var taken map[string]any
	for next, n := "", 0; taken == nil; n++ {
		status, m := c.call(http.MethodPost, room+"/claim", fmt.Sprintf(`{"request_id":"t%d"}`, n))
		switch {
		case status == http.StatusOK:
			taken, _ = m["activation"].(map[string]any)
		case m["code"] != "ACTIVATION_EXISTS":
			t.Fatalf("%d %v", status, m)
		default:
			next, _ = c.ok(http.MethodGet, "/events?wait_seconds=1&after="+url.QueryEscape(next), "")["next"].(string)
		}
	}
	before, _ := claimed["fencing_token"].(json.Number).Int64()
	after, _ := taken["fencing_token"].(json.Number).Int64()
	if after <= before || taken["member"] == "victim" || taken["state"] != "b25l" || taken["phase"] != "LOCKED" {
		t.Errorf("%v took over from %v", taken, claimed)
	}
	c.rejected(room+"/state", "{"+owns(claimed)+`,"request_id":"s2","state_version":1,"state":"dHdv"}`, "STALE_TOKEN")
	c.rejected(room+"/deactivate", "{"+owns(claimed)+"}", "STALE_TOKEN")
	c.rejected("/members/victim/heartbeat", `{"seq":1,"incarnation":`+members["victim"]+`}`, "STALE_INCARNATION")
	c.ok(http.MethodPost, room+"/activated", "{"+owns(taken)+"}")
	c.ok(http.MethodPost, room+"/state", "{"+owns(taken)+`,"request_id":"s3","state_version":1,"state":"dGhyZWU="}`)
	if m := c.ok(http.MethodGet, room, ""); m["state"] != "dGhyZWU=" || m["phase"] != "ACTIVE" {
		t.Errorf("%v", m)
	}
	seen, _ := json.Marshal(c.ok(http.MethodGet, "/events?page_size=1000", ""))
	for _, want := range []string{`"reason":"its lease ended","to":"DEAD"`,
		`"reason":"taken over from victim","to":"LOCKED"`} {
		if !strings.Contains(string(seen), want) {
			t.Errorf("no event has %s: %s", want, seen)
		}
	}

	// Were this request waited for to the end, requests would be cancelled at the end of the grace, and the exit code be
	// another one.
	sent := make(chan struct{})
	waiting := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { close(sent) }})
	r, err := http.NewRequestWithContext(waiting, http.MethodGet,
		c.url+"/events?wait_seconds=20&after=9999-01-01T00:00:00.000Z", nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if a, err := http.DefaultClient.Do(r); err == nil {
			defer a.Body.Close()
			if a.StatusCode != http.StatusOK {
				t.Error(a.Status)
			}
		}
	}()
	<-sent
	c.ok(http.MethodGet, "/members", "")
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-p.ended; err != nil {
		t.Errorf("%v\n%s", err, p.stderr.Bytes())
	}
	<-ended
}
