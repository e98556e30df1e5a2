package lambdatest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-lambda-go/events"
)

// HTTPAPI is Amazon API Gateway's HTTP API in front of instances of a function, each of which has one request at a
// time. It is an [http.RoundTripper]: the request becomes an event, its path decoded, as from a caller whom a JWT
// authorizer let pass.
type HTTPAPI struct {
	claims map[string]string
	free   chan *Instance
}

// HTTPAPITimeout is the longest that an HTTP API waits for a function.
const HTTPAPITimeout = 30 * time.Second

// NewHTTPAPI returns an HTTP API with the claims of its caller's token, and the instances behind it.
func NewHTTPAPI(claims map[string]string, instances ...*Instance) *HTTPAPI {
	a := &HTTPAPI{claims, make(chan *Instance, len(instances))}
	for _, i := range instances {
		a.free <- i
	}
	return a
}

// event is the request as an HTTP API hands it to a function.
func (a *HTTPAPI) event(r *http.Request) ([]byte, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	headers := map[string]string{"host": r.Host}
	for name := range r.Header {
		headers[name] = r.Header.Get(name)
	}
	e := events.APIGatewayV2HTTPRequest{
		Version: "2.0", RouteKey: "$default", RawPath: r.URL.Path, RawQueryString: r.URL.RawQuery, Headers: headers,
		Body: string(body),
	}
	e.RequestContext.Stage, e.RequestContext.APIID = "$default", "a1b2c3"
	e.RequestContext.HTTP = events.APIGatewayV2HTTPRequestContextHTTPDescription{Method: r.Method, Path: r.URL.Path,
		Protocol: "HTTP/1.1", SourceIP: "192.0.2.1"}
	e.RequestContext.Authorizer = &events.APIGatewayV2HTTPRequestContextAuthorizerDescription{
		JWT: &events.APIGatewayV2HTTPRequestContextAuthorizerJWTDescription{Claims: a.claims},
	}
	return json.Marshal(e)
}

// RoundTrip implements [http.RoundTripper].
func (a *HTTPAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	payload, err := a.event(r)
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
		var response events.APIGatewayV2HTTPResponse
		if err := json.Unmarshal(got.Body, &response); err != nil || got.Failed {
			return nil, errors.Join(errors.New("the function failed: "+string(got.Body)), err)
		}
		w := &http.Response{StatusCode: response.StatusCode, Header: http.Header{},
			Body: io.NopCloser(bytes.NewReader([]byte(response.Body))), Request: r}
		for name, value := range response.Headers {
			w.Header.Set(name, value)
		}
		return w, nil
	case <-i.ended:
		return nil, errors.New("the instance ended")
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}
