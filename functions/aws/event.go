package aws

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-lambda-go/events"
)

// parse reads an event. A function URL's event has the same shape as that of an HTTP API, with fewer members.
func parse(payload []byte) (*events.APIGatewayV2HTTPRequest, error) {
	var event events.APIGatewayV2HTTPRequest
	if err := json.Unmarshal(payload, &event); err != nil {
		return nil, fmt.Errorf("the event is not one of an HTTP API or a function URL: %w", err)
	}
	if event.Version != "2.0" {
		return nil, fmt.Errorf("the event has payload format version %q: set the integration's payload format version to \"2.0\", "+
			"and invoke this function through an HTTP API or a function URL only", event.Version)
	}
	if event.RequestContext.HTTP.Method == "" {
		return nil, errors.New("the event has no requestContext.http.method: it is not one of an HTTP API or a function URL")
	}
	return &event, nil
}

// requestError is an error of the request in a valid event. field is a member of the contract's requests.
type requestError struct{ field, problem string }

func (e *requestError) Error() string { return e.field + " " + e.problem }

// request returns the HTTP request that the event describes, without the base path. The error is a [requestError].
func request(ctx context.Context, event *events.APIGatewayV2HTTPRequest, basePath string) (*http.Request, error) {
	body := []byte(event.Body)
	if event.IsBase64Encoded {
		var err error
		if body, err = base64.StdEncoding.DecodeString(event.Body); err != nil {
			return nil, &requestError{"body", "is not base64, as the event says it is"}
		}
	}
	r, err := http.NewRequestWithContext(ctx, event.RequestContext.HTTP.Method, "/", bytes.NewReader(body))
	if err != nil {
		return nil, &requestError{"method", "is not an HTTP method"}
	}
	path := sentPath(event, basePath)
	if !strings.HasPrefix(path, "/") {
		return nil, &requestError{"path", "does not begin with \"/\""}
	}
	if r.URL, err = url.ParseRequestURI(path); err != nil {
		return nil, &requestError{"path", "is malformed: a \"%\" must be followed by two hexadecimal digits"}
	}
	r.URL.RawQuery = event.RawQueryString
	r.RequestURI = r.URL.RequestURI()
	for name, value := range event.Headers {
		r.Header.Add(name, value)
	}
	if len(event.Cookies) > 0 {
		r.Header.Set("Cookie", strings.Join(event.Cookies, "; ")) // RFC 6265, section 5.4
	}
	r.Host = r.Header.Get("Host")
	r.Header.Del("Host")
	return r, nil
}

// sentPath is the event's path with the escapes that it was sent with, without the base path and without the name of the
// stage, which the default domain of an HTTP API has in the path and a custom domain does not.
func sentPath(event *events.APIGatewayV2HTTPRequest, basePath string) string {
	path := event.RawPath
	if rest, ok := strings.CutPrefix(path, basePath+"/"); ok && basePath != "" {
		path = "/" + rest
	} else if stage := event.RequestContext.Stage; stage != "" && stage != "$default" && strings.Contains(event.RequestContext.DomainName, ".execute-api.") {
		if rest, ok := strings.CutPrefix(path, "/"+stage+"/"); ok {
			path = "/" + rest
		}
	}
	if strings.Contains(event.RequestContext.DomainName, ".lambda-url.") {
		return path
	}
	return escape(event.RequestContext.HTTP.Method, path)
}

// escape undoes what an HTTP API does to a path. Slashes inside of a lock key or a resource then look like other slashes,
// but in the paths of the contract at most one segment follows the key, the action of a POST:
//
//	/v1/tenants/{tenant_id}/locks/{lock_key}/acquire
func escape(method, path string) string {
	const collection, key = 4, 5
	segments := strings.Split(path, "/")
	end := len(segments)
	if method == http.MethodPost {
		end--
	}
	if end > key && segments[1] == "v1" && segments[2] == "tenants" &&
		(segments[collection] == "locks" || segments[collection] == "fences") {
		whole := strings.Join(segments[key:end], "/")
		segments = append(append(segments[:key:key], whole), segments[end:]...)
	}
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return strings.Join(segments, "/")
}
