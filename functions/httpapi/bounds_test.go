package httpapi_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestBoundsOfRequests: each bound that the contract states for a member of a body or for a parameter is the one of the
// server. What is at the bound is taken, and what is one or ten times beyond it is refused by the name of the member,
// with nothing changed.
func TestBoundsOfRequests(t *testing.T) {
	t.Parallel()
	public, _, err := contracttest.Load()
	if err != nil {
		t.Fatal(err)
	}
	d, tried := open(t, httpapi.Development{}), 0
	d.store = &writes{Store: d.store}
	d.serve(httpapi.Development{}, d.store)
	for _, path := range slices.Sorted(maps.Keys(public.Paths.Map())) {
		item := public.Paths.Map()[path]
		for _, method := range slices.Sorted(maps.Keys(item.Operations())) {
			op := item.Operations()[method]
			for _, b := range boundsOf(method, path, item, op) {
				tried++
				t.Run(op.OperationID+" "+b.name, func(t *testing.T) {
					for _, try := range b.tries {
						b.check(t, d, try)
					}
				})
			}
		}
	}
	if tried < 150 {
		t.Errorf("only %d bounds were found in the contract", tried)
	}
}

// bound is one bound of a member of a request.
type bound struct {
	name  string // as the refusal calls it
	tries []boundTry
}

// boundTry is a request whose member is at a bound, or beyond it.
type boundTry struct {
	what, method, target, body string
	beyond                     bool
}

func (b bound) check(t *testing.T, d *api, try boundTry) {
	t.Helper()
	written := d.store.(*writes)
	before := written.n
	a := d.send(try.method, try.target, try.body)
	field, _ := a.body["field"].(string)
	named := a.body["code"] == "INVALID_ARGUMENT" && (field == b.name || strings.HasPrefix(field, b.name+"."))
	switch {
	case !try.beyond && (named || a.status == 413):
		t.Errorf("%s: refused: %d %s", try.what, a.status, a.raw)
	case try.beyond && len(try.body) > httpapi.MaxBodyBytes && a.status == 413:
	case try.beyond && (a.status != 400 || !named):
		t.Errorf("%s: %d %s, want 400 that names %s", try.what, a.status, a.raw, b.name)
	case try.beyond && written.n > before:
		t.Errorf("%s: something was written", try.what)
	}
}

// writes counts the writes that a store is sent.
type writes struct {
	docstore.Store

	n int
}

func (w *writes) Write(ctx context.Context, ws ...docstore.Write) (docstore.Result, error) {
	w.n++
	return w.Store.Write(ctx, ws...)
}

// boundsOf are the bounds of an operation's parameters and of the members of its body, as the contract states them. The
// rest of each request is the contract's own example.
func boundsOf(method, path string, item *openapi3.PathItem, op *openapi3.Operation) (bounds []bound) {
	var example map[string]any
	var schema *openapi3.Schema
	if op.RequestBody != nil {
		if content := op.RequestBody.Value.Content.Get("application/json"); content != nil && content.Schema != nil {
			example, _ = firstExample(content).(map[string]any)
			schema = content.Schema.Value
		}
	}
	requests := 0
	request := func(what string, beyond bool, names, query map[string]string, body map[string]any) boundTry {
		target := path
		requests++ // each is about something else, so that none waits for another
		for _, ref := range slices.Concat(item.Parameters, op.Parameters) {
			if p := ref.Value; p.In == openapi3.ParameterInPath {
				target = strings.ReplaceAll(target, "{"+p.Name+"}", url.PathEscape(cmp.Or(names[p.Name], strconv.Itoa(requests))))
			}
		}
		values := url.Values{}
		for k, v := range query {
			values.Set(k, v)
		}
		if len(values) > 0 {
			target += "?" + values.Encode()
		}
		try := boundTry{what: what, method: method, target: target, beyond: beyond}
		if body != nil {
			b, _ := json.Marshal(body)
			try.body = string(b)
		}
		return try
	}
	skip := func(v boundValue, name string) bool {
		return !v.beyond && (otherwise[name] != "" || otherwise[op.OperationID+" "+name] != "")
	}
	for _, ref := range slices.Concat(item.Parameters, op.Parameters) {
		b, p := bound{name: ref.Value.Name}, ref.Value
		if p.Schema == nil { // a header, or one whose values are a list
			continue
		}
		for _, v := range valuesAt(p.Schema.Value) {
			if p.In == openapi3.ParameterInPath && v.value == "" || skip(v, p.Name) {
				continue // without a name it is another path
			}
			text := map[string]string{p.Name: fmt.Sprint(v.value)}
			switch p.In {
			case openapi3.ParameterInPath:
				b.tries = append(b.tries, request(v.what, v.beyond, text, nil, example))
			case openapi3.ParameterInQuery:
				b.tries = append(b.tries, request(v.what, v.beyond, nil, text, example))
			}
		}
		if len(b.tries) > 0 {
			bounds = append(bounds, b)
		}
	}
	if schema == nil {
		return bounds
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		b := bound{name: name}
		for _, v := range valuesAt(schema.Properties[name].Value) {
			if skip(v, name) {
				continue
			}
			body := maps.Clone(example)
			maps.Copy(body, companions[op.OperationID+" "+name])
			body[name] = v.value
			maps.DeleteFunc(body, func(_ string, v any) bool { return v == nil })
			b.tries = append(b.tries, request(v.what, v.beyond, nil, nil, body))
		}
		if len(b.tries) > 0 {
			bounds = append(bounds, b)
		}
	}
	return bounds
}

// companions are what a member needs beside it, where the example does not have that.
var companions = map[string]map[string]any{
	"finishAnalysis failure_reason": {"status": "FAILED", "result": nil},
	"finishRun failure_reason":      {"status": "FAILED", "result": nil},
	"acquireLock limit":             {"mode": "rate", "window_seconds": 60, "ttl_seconds": nil},
	"acquireLock window_seconds":    {"mode": "rate", "limit": 1, "ttl_seconds": nil},
	"acquireLock max_waiting":       {"fair": true},
}

// otherwise are members that take what is at their bound only in requests that this test does not make, and why.
var otherwise = map[string]string{
	"page_token":                  "a page must have given it",
	"listEvents after":            "a page must have given it",
	"listEvents wait_seconds":     "it waits for as long",
	"claimActivation incarnation": "0 goes without a member, what is above with one",
	"checkFence fencing_token":    "a lock must have given it",
	"releaseMachineID timestamp":  "must be near the server's time",
}

func firstExample(m *openapi3.MediaType) any {
	if m.Example != nil {
		return m.Example
	}
	for _, name := range slices.Sorted(maps.Keys(m.Examples)) {
		return m.Examples[name].Value.Value
	}
	return nil
}

// boundValue is a value at a bound, or beyond it.
type boundValue struct {
	what   string
	value  any
	beyond bool
}

// valuesAt are the values at the bounds that a schema states, one beyond them, and ten times beyond.
func valuesAt(s *openapi3.Schema) (values []boundValue) {
	add := func(beyond bool, what string, value any) {
		values = append(values, boundValue{what: what, value: value, beyond: beyond})
	}
	upTo := func(unit string, most uint64, value func(n int) any) {
		n := int(most)
		add(false, fmt.Sprintf("%d %s", n, unit), value(n))
		add(true, fmt.Sprintf("%d %s", n+1, unit), value(n+1))
		add(true, fmt.Sprintf("%d %s", 10*n, unit), value(10*n))
	}
	text := func(n int) any { return strings.Repeat("a", n) }
	if s.MaxLength != nil && s.Enum == nil {
		upTo("characters", *s.MaxLength, text)
	}
	if s.MinLength > 0 && s.Enum == nil {
		add(true, "no characters", "")
	}
	if s.Max != nil {
		most := int64(*s.Max)
		add(false, strconv.FormatInt(most, 10), most)
		add(true, strconv.FormatInt(most+1, 10), most+1)
		add(true, strconv.FormatInt(10*most, 10), 10*most)
	}
	if s.Min != nil {
		least := int64(*s.Min)
		add(false, strconv.FormatInt(least, 10), least)
		add(true, strconv.FormatInt(least-1, 10), least-1)
	}
	if s.MaxProps != nil {
		upTo("members", *s.MaxProps, func(n int) any {
			m := map[string]any{}
			for i := range n {
				m[fmt.Sprintf("k%d", i)] = "v"
			}
			return m
		})
	}
	if of := s.AdditionalProperties.Schema; of != nil && of.Value.MaxLength != nil {
		upTo("characters of a value", *of.Value.MaxLength, func(n int) any { return map[string]any{"k": text(n)} })
	}
	return values
}
