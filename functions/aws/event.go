package aws

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// payload has those members of the events of all front ends that this package reads.
type payload struct {
	Version        string `json:"version"`
	MethodARN      string `json:"methodArn"`
	RequestContext struct {
		Stage      string          `json:"stage"`
		DomainName string          `json:"domainName"`
		Authorizer json.RawMessage `json:"authorizer"`
		APIID      string          `json:"apiId"`
		HTTP       struct {
			Method   string `json:"method"`
			SourceIP string `json:"sourceIp"`
		} `json:"http"`
		Identity struct {
			SourceIP          string `json:"sourceIp"`
			UserARN           string `json:"userArn"`
			CognitoIdentityID string `json:"cognitoIdentityId"`
		} `json:"identity"`
		ELB *struct{} `json:"elb"`
	} `json:"requestContext"`

	// Payload format 2.0.
	RawPath        string   `json:"rawPath"`
	RawQueryString string   `json:"rawQueryString"`
	Cookies        []string `json:"cookies"`

	// REST APIs and load balancers.
	HTTPMethod        string              `json:"httpMethod"`
	Path              string              `json:"path"`
	Query             map[string]string   `json:"queryStringParameters"`
	MultiValueQuery   map[string][]string `json:"multiValueQueryStringParameters"`
	MultiValueHeaders map[string][]string `json:"multiValueHeaders"`

	Headers         map[string]string `json:"headers"`
	Body            string            `json:"body"`
	IsBase64Encoded bool              `json:"isBase64Encoded"`
}

// event is an HTTP request, whatever front end sent it.
type event struct {
	front  FrontDoor
	method string
	path   string // with escapes, without base path and stage
	query  string
	header http.Header
	body   string
	base64 bool
	remote string // address of the caller
	lists  bool   // a load balancer that takes and sends lists of header values
	caller verified
}

// parse reads an event.
func parse(encoded []byte, basePath string) (*event, error) {
	var p payload
	if err := json.Unmarshal(encoded, &p); err != nil {
		return nil, fmt.Errorf("the event is not an HTTP request: %w", err)
	}
	e := &event{front: p.front(), header: http.Header{}, body: p.Body, base64: p.IsBase64Encoded}
	switch {
	case e.front == "" && p.Version != "":
		return nil, fmt.Errorf(
			"the event has payload format version %q: set the integration's payload format version to \"2.0\"", p.Version)
	case e.front == "":
		return nil, errors.New(
			"the event is not an HTTP request of a function URL, an HTTP API, a REST API or an Application Load Balancer: " +
				"invoke this function through one of them only")
	case p.Version == "2.0" && p.RequestContext.HTTP.Method == "":
		return nil, errors.New("the event has no requestContext.http.method: it is not one of an HTTP API or a function URL")
	}
	if e.front == FunctionURL || e.front == HTTPAPI {
		e.formatTwo(&p, basePath)
	} else {
		e.formatOne(&p, basePath)
	}
	var err error
	if e.caller, err = p.verified(e.front); err != nil {
		return nil, fmt.Errorf("the event's requestContext.authorizer: %w", err)
	}
	return e, nil
}

// formatTwo reads an event in payload format 2.0.
func (e *event) formatTwo(p *payload, basePath string) {
	e.method, e.path, e.query = p.RequestContext.HTTP.Method, sentPath(p, e.front, basePath), p.RawQueryString
	e.remote = p.RequestContext.HTTP.SourceIP
	for name, value := range p.Headers {
		e.header.Add(name, value)
	}
	if len(p.Cookies) > 0 {
		e.header.Set("Cookie", strings.Join(p.Cookies, "; ")) // RFC 6265, section 5.4
	}
}

// formatOne reads an event of a REST API or of a load balancer. Where it has lists of values, they have everything that
// the single values have. Paths keep the escapes that they were sent with; a query does in a load balancer only.
func (e *event) formatOne(p *payload, basePath string) {
	e.method, e.path, e.lists = p.HTTPMethod, withoutBase(p.Path, basePath), p.MultiValueHeaders != nil
	header, query := p.MultiValueHeaders, p.MultiValueQuery
	if header == nil {
		header = lists(p.Headers)
	}
	if query == nil {
		query = lists(p.Query)
	}
	for name, values := range header {
		for _, value := range values {
			e.header.Add(name, value)
		}
	}
	e.remote = p.RequestContext.Identity.SourceIP
	if e.front == RESTAPI {
		e.query = url.Values(query).Encode()
		e.header.Del("Accept-Encoding") // it passes bytes on as text, unless it is set up for their media types
		return
	}
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(query)) {
		for _, value := range query[name] {
			pairs = append(pairs, name+"="+value)
		}
	}
	e.query = strings.Join(pairs, "&")
	// The load balancer adds the address that it sees at the end; what is before it, anyone can write.
	if by := e.header.Values("X-Forwarded-For"); len(by) > 0 {
		last := by[len(by)-1]
		e.remote = strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])
	}
}

// lists are single values as lists of one.
func lists(single map[string]string) map[string][]string {
	all := make(map[string][]string, len(single))
	for name, value := range single {
		all[name] = []string{value}
	}
	return all
}

// requestError is an error of the request in a valid event. field is a member of the contract's requests.
type requestError struct{ field, problem string }

func (e *requestError) Error() string { return e.field + " " + e.problem }

// request returns the HTTP request that the event describes. The error is a [requestError].
func (e *event) request(ctx context.Context) (*http.Request, error) {
	body := []byte(e.body)
	if e.base64 {
		var err error
		if body, err = base64.StdEncoding.DecodeString(e.body); err != nil {
			return nil, &requestError{"body", "is not base64, as the event says it is"}
		}
	}
	r, err := http.NewRequestWithContext(ctx, e.method, "/", bytes.NewReader(body))
	if err != nil {
		return nil, &requestError{"method", "is not an HTTP method"}
	}
	if !strings.HasPrefix(e.path, "/") {
		return nil, &requestError{"path", "does not begin with \"/\""}
	}
	if r.URL, err = url.ParseRequestURI(e.path); err != nil {
		return nil, &requestError{"path", "is malformed: a \"%\" must be followed by two hexadecimal digits"}
	}
	r.URL.RawQuery = e.query
	r.RequestURI = r.URL.RequestURI()
	r.Header, r.RemoteAddr = e.header, e.remote
	r.Host = r.Header.Get("Host")
	r.Header.Del("Host")
	return r, nil
}

// sentPath is the path of an event in payload format 2.0 with escapes, without the base path and without the name of
// the stage, which the default domain of an HTTP API has in the path and a custom domain does not.
func sentPath(p *payload, front FrontDoor, basePath string) string {
	path := withoutBase(p.RawPath, basePath)
	if front == FunctionURL {
		return path
	}
	stage := p.RequestContext.Stage
	if path == p.RawPath && stage != "" && stage != "$default" && strings.Contains(p.RequestContext.DomainName,
		".execute-api.") {
		if rest, ok := strings.CutPrefix(path, "/"+stage+"/"); ok {
			path = "/" + rest
		}
	}
	return escape(path)
}

// withoutBase removes the base path. A path without it stays as it is.
func withoutBase(path, basePath string) string {
	if rest, ok := strings.CutPrefix(path, basePath+"/"); ok && basePath != "" {
		return "/" + rest
	}
	return path
}

// escape is a path without escapes as one with escapes. Which of its slashes are inside of names, it does not know.
func escape(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return strings.Join(segments, "/")
}
