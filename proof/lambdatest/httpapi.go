package lambdatest

import (
	"errors"
	"net/http"
	"time"
)

// HTTPAPI is Amazon API Gateway's HTTP API in front of instances of a function, each of which has one request at a
// time. It is an [http.RoundTripper]; requests are as from a caller whom a JWT authorizer let pass.
type HTTPAPI struct {
	front Front
	free  chan *Instance
}

// HTTPAPITimeout is the longest that an HTTP API waits for a function.
const HTTPAPITimeout = 30 * time.Second

// NewHTTPAPI returns an HTTP API with the claims of its caller's token, and the instances behind it.
func NewHTTPAPI(claims map[string]string, instances ...*Instance) *HTTPAPI {
	a := &HTTPAPI{Front{Name: "http-api", Claims: claims}, make(chan *Instance, len(instances))}
	for _, i := range instances {
		a.free <- i
	}
	return a
}

// RoundTrip implements [http.RoundTripper].
func (a *HTTPAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	payload, err := a.front.Event(r)
	if err != nil {
		return nil, err
	}
	var i *Instance
	select {
	case i = <-a.free:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	done := make(chan Response, 1)
	go func() { // to its end, also when the caller has gone
		if response, ok := i.do(payload, HTTPAPITimeout); ok {
			done <- response
			a.free <- i
		}
	}()
	select {
	case got := <-done:
		if got.Failed {
			return nil, errors.New("the function failed: " + string(got.Body))
		}
		return a.front.Response(r, got.Body)
	case <-i.ended:
		return nil, errors.New("the instance ended")
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}
