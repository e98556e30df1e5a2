package lambdatest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-lambda-go/events"
)

// Front is a service of AWS that hands HTTP requests to a function as events, and makes responses of what the function
// returns. What each does to a path and a query is not written in its documentation; it is known from events and
// responses that others have published.
type Front struct {
	Name   string            // as the setting LEASEHOLD_FRONT_DOOR has it
	Lists  bool              // a load balancer that was set up to send and take lists of values
	Claims map[string]string // of the token that an authorizer of an HTTP API let pass; nil: it has none
}

// Fronts are the services.
var Fronts = []Front{{Name: "url"}, {Name: "http-api"}, {Name: "rest-api"}, {Name: "alb"}, {Name: "alb", Lists: true}}

// String is the name, and "with lists" if it sends lists.
func (f Front) String() string {
	if f.Lists {
		return f.Name + " with lists"
	}
	return f.Name
}

// Event is the request as the service hands it to a function.
func (f Front) Event(r *http.Request) ([]byte, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	sent := r.Header.Clone()
	sent.Set("Host", r.Host)
	if r.Host == "" {
		sent.Set("Host", r.URL.Host)
	}
	switch f.Name {
	case "url", "http-api":
		return f.formatTwo(r, sent, body)
	case "rest-api":
		e := events.APIGatewayProxyRequest{
			Resource: "/{proxy+}", Path: r.URL.EscapedPath(), HTTPMethod: r.Method, Headers: single(sent, false),
			MultiValueHeaders: sent, Body: string(body),
		}
		if query := r.URL.Query(); len(query) > 0 { // the values without escapes
			e.MultiValueQueryStringParameters, e.QueryStringParameters = query, last(query)
		}
		e.RequestContext.APIID, e.RequestContext.Stage = "a1b2c3", "prod"
		e.RequestContext.Path, e.RequestContext.Identity.SourceIP = "/prod"+e.Path, "192.0.2.1"
		return json.Marshal(e)
	case "alb":
		e := events.ALBTargetGroupRequest{Path: r.URL.EscapedPath(), HTTPMethod: r.Method, Body: string(body)}
		e.RequestContext.ELB.TargetGroupArn = "arn:aws:elasticloadbalancing:eu-north-1:123456789012:targetgroup/t/6d0e"
		sent.Set("X-Forwarded-For", "192.0.2.1")
		query := url.Values{} // the values as they were sent, with escapes
		for pair := range strings.SplitSeq(r.URL.RawQuery, "&") {
			if name, value, _ := strings.Cut(pair, "="); name != "" {
				query.Add(name, value)
			}
		}
		if f.Lists {
			e.MultiValueHeaders, e.MultiValueQueryStringParameters = map[string][]string{}, query
			for name, values := range sent {
				e.MultiValueHeaders[strings.ToLower(name)] = values
			}
			return json.Marshal(e)
		}
		e.Headers, e.QueryStringParameters = single(sent, true), last(query)
		return json.Marshal(e)
	}
	return nil, fmt.Errorf("%q is none of the services", f.Name)
}

// formatTwo is an event in payload format 2.0. A function URL passes the path on as it was sent. An HTTP API resolves
// its escapes, and cuts what is behind a "?" then. The query is in both as it was sent.
func (f Front) formatTwo(r *http.Request, sent http.Header, body []byte) ([]byte, error) {
	e := events.APIGatewayV2HTTPRequest{
		Version: "2.0", RouteKey: "$default", RawPath: r.URL.EscapedPath(), RawQueryString: r.URL.RawQuery,
		Cookies: sent.Values("Cookie"), Body: string(body),
	}
	sent.Del("Cookie")
	e.Headers = map[string]string{}
	for name, values := range sent {
		e.Headers[strings.ToLower(name)] = strings.Join(values, ",")
	}
	e.RequestContext.Stage, e.RequestContext.APIID = "$default", "a1b2c3"
	e.RequestContext.DomainName = "a1b2c3.lambda-url.eu-north-1.on.aws"
	if f.Name == "http-api" {
		e.RawPath, _, _ = strings.Cut(r.URL.Path, "?")
		e.RequestContext.DomainName = "a1b2c3.execute-api.eu-north-1.amazonaws.com"
	}
	if f.Claims != nil {
		e.RequestContext.Authorizer = &events.APIGatewayV2HTTPRequestContextAuthorizerDescription{
			JWT: &events.APIGatewayV2HTTPRequestContextAuthorizerJWTDescription{Claims: f.Claims},
		}
	}
	e.RequestContext.HTTP = events.APIGatewayV2HTTPRequestContextHTTPDescription{Method: r.Method, Path: e.RawPath,
		Protocol: "HTTP/1.1", SourceIP: "192.0.2.1"}
	return json.Marshal(e)
}

// single are the last values of a header.
func single(header http.Header, lower bool) map[string]string {
	values := last(url.Values(header))
	if !lower {
		return values
	}
	lowered := make(map[string]string, len(values))
	for name, value := range values {
		lowered[strings.ToLower(name)] = value
	}
	return lowered
}

func last(all url.Values) map[string]string {
	values := make(map[string]string, len(all))
	for name, list := range all {
		if len(list) > 0 {
			values[name] = list[len(list)-1]
		}
	}
	return values
}

// Response is what the service makes of what a function returned for a request.
func (f Front) Response(r *http.Request, returned []byte) (*http.Response, error) {
	// All services read these members; a load balancer needs the description, too.
	var got events.ALBTargetGroupResponse
	var two events.APIGatewayV2HTTPResponse
	if err := json.Unmarshal(returned, &got); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(returned, &two); err != nil {
		return nil, err
	}
	body := []byte(got.Body)
	if got.IsBase64Encoded {
		var err error
		if body, err = base64.StdEncoding.DecodeString(got.Body); err != nil {
			return nil, err
		}
	}
	w := &http.Response{
		Status: fmt.Sprintf("%d %s", got.StatusCode, http.StatusText(got.StatusCode)), StatusCode: got.StatusCode,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, ContentLength: int64(len(body)),
		Body: io.NopCloser(bytes.NewReader(body)), Request: r,
	}
	switch {
	case f.Name == "alb" && got.StatusDescription == "":
		return nil, fmt.Errorf("a response for a load balancer has no description: %s", returned)
	case f.Name == "rest-api" || f.Lists:
		for name, values := range got.MultiValueHeaders {
			for _, value := range values {
				w.Header.Add(name, value)
			}
		}
		return w, nil
	}
	for name, value := range got.Headers {
		w.Header.Set(name, value)
	}
	for _, cookie := range two.Cookies {
		w.Header.Add("Set-Cookie", cookie)
	}
	return w, nil
}

// Transport sends requests through the service to a function, whatever number of them at once. The function's context
// has no deadline; it ends with the request's, so that nothing is left when a test ends.
func (f Front) Transport(invoke func(ctx context.Context, payload []byte) ([]byte, error)) http.RoundTripper {
	return transport{f, invoke}
}

type transport struct {
	front  Front
	invoke func(ctx context.Context, payload []byte) ([]byte, error)
}

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	payload, err := t.front.Event(r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	defer context.AfterFunc(r.Context(), cancel)()
	returned, err := t.invoke(ctx, payload)
	if gone := r.Context().Err(); gone != nil {
		return nil, gone
	}
	if err != nil {
		return nil, err
	}
	return t.front.Response(r, returned)
}
