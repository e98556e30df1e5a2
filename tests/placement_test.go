package tests

import (
	"net/http"
	"net/http/httptrace"
	"syscall"
	"testing"

	"github.com/leasehold-dev/leasehold/client"
)

// TestStopWithReadersOfEvents: a request that waits for events does not keep the server from stopping.
func TestStopWithReadersOfEvents(t *testing.T) {
	t.Parallel()
	p := start(t, "--data", t.TempDir(), "--shutdown-timeout", "5s")
	// Were this request waited for to the end, requests would be cancelled at the end of the grace, and the exit code be
	// another one.
	sent := make(chan struct{})
	waiting := httptrace.WithClientTrace(unhurried(t), &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { close(sent) }})
	r, err := http.NewRequestWithContext(waiting, http.MethodGet,
		p.url+"/v1/tenants/acme/clusters/chat/events?wait_seconds=20&after=9999-01-01T00:00:00.000Z", nil)
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
	c, err := client.New(p.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Placements("acme", "chat").Members(unhurried(t)); err != nil { // the other request is there, too
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-p.ended; err != nil {
		t.Errorf("%v\n%s", err, p.stderr.Bytes())
	}
	<-ended
}
