package httpapi_test

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// applying is a store that counts what was written.
type applying struct {
	docstore.Store
	applied int
}

func (s *applying) Write(ctx context.Context, all ...docstore.Write) (docstore.Result, error) {
	r, err := s.Store.Write(ctx, all...)
	if r.Applied {
		s.applied++
	}
	return r, err
}

// TestRights sends every operation of the contract as callers with each right alone, with none, and without
// credentials, and with all rights but one, in their tenant and in another one. Each has a body with which it would be
// carried out. What is refused has changed no document. What was let in is the table of the page on authentication.
func TestRights(t *testing.T) {
	t.Parallel()
	var contract struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(contracts.OpenAPIJSON, &contract); err != nil {
		t.Fatal(err)
	}
	senders := []struct {
		name   string
		rights httpapi.Rights
	}{{"every caller", 0}}
	for _, k := range httpapi.KnownRights {
		senders = append(senders, struct {
			name   string
			rights httpapi.Rights
		}{"`" + k.Name + "`", k.Right})
	}
	who := &callers{}
	d := open(t, who)
	store := &applying{Store: d.store}
	d.serve(who, store)
	// admits says whether a caller gets as far as to what the operation does.
	bodies, refused := map[string]string{}, 0
	admits := func(method, path, tenant string) bool {
		at := strings.NewReplacer("{tenant_id}", tenant, "{id}", "1").Replace(path)
		for part := range strings.SplitSeq(at, "/") {
			if strings.HasPrefix(part, "{") {
				at = strings.Replace(at, part, "x", 1)
			}
		}
		if path == "/v1/history" {
			at += "?kind=lock&key=k&tenant_id=" + tenant
		}
		before := store.applied
		code := d.send(strings.ToUpper(method), at, bodies[method+path]).body["code"]
		if code != "PERMISSION_DENIED" && code != "UNAUTHENTICATED" {
			return true
		}
		if refused++; store.applied != before {
			t.Errorf("%s %s was refused, and wrote", method, at)
		}
		return false
	}
	operations := map[string][]string{} // by who is let in
	cells := 0
	for _, path := range slices.Sorted(maps.Keys(contract.Paths)) {
		methods := contract.Paths[path]
		ofTenant := strings.Contains(path, "{tenant_id}") || path == "/v1/history"
		for _, method := range slices.Sorted(maps.Keys(methods)) {
			raw := methods[method]
			var operation struct {
				OperationID string `json:"operationId"`
				RequestBody struct {
					Content map[string]struct {
						Example  json.RawMessage
						Examples map[string]struct{ Value json.RawMessage } `json:"examples"`
					} `json:"content"`
				} `json:"requestBody"`
			}
			if method == "parameters" {
				continue
			}
			if err := json.Unmarshal(raw, &operation); err != nil {
				t.Fatal(err)
			}
			of := operation.RequestBody.Content["application/json"]
			bodies[method+path] = string(of.Example)
			for _, name := range slices.Backward(slices.Sorted(maps.Keys(of.Examples))) {
				if value := string(of.Examples[name].Value); !strings.Contains(value, "wait_seconds") { // no one releases it
					bodies[method+path] = value
				}
			}
			if operation.RequestBody.Content != nil && bodies[method+path] == "" {
				t.Errorf("%s has no example that does not wait", operation.OperationID)
			}
			who.caller, who.err = httpapi.Caller{}, httpapi.Unauthenticated("no token")
			if admits(method, path, "acme") {
				operations["everyone, without a token"] = append(operations["everyone, without a token"], operation.OperationID)
				continue
			}
			who.err = nil
			var own, others []string
			for _, c := range senders {
				who.caller = httpapi.Caller{Subject: "svc", Tenant: "acme", Rights: c.rights}
				if admits(method, path, "acme") {
					own = append(own, c.name)
				}
				if ofTenant && admits(method, path, "acmf") {
					others = append(others, c.name)
				}
			}
			// A right only adds: whoever has all others is let in where one of them alone is, and nowhere else.
			for _, c := range senders[1:] {
				who.caller = httpapi.Caller{Subject: "svc", Tenant: "acme", Rights: httpapi.AllRights &^ c.rights}
				for tenant, alone := range map[string][]string{"acme": own, "acmf": others} {
					if tenant == "acmf" && !ofTenant {
						continue
					}
					want := slices.ContainsFunc(alone, func(name string) bool { return name != c.name })
					if cells++; admits(method, path, tenant) != want {
						t.Errorf("%s with all rights but %s in %s is let in: %v, want %v", operation.OperationID, c.name, tenant,
							!want, want)
					}
				}
			}
			if slices.Contains(own, senders[0].name) {
				own = own[:1]
			}
			who := strings.Join(own, ", ")
			if ofTenant {
				who += ", in its tenant"
			}
			if len(others) > 0 {
				who += "; " + strings.Join(others, ", ") + " in all"
			}
			operations[who] = append(operations[who], operation.OperationID)
		}
	}
	if cells < 300 || refused < 300 || store.applied < 20 {
		t.Errorf("only %d cells were tried, %d refused, and %d writes made", cells, refused, store.applied)
	}
	var table strings.Builder
	table.WriteString("| Who | May |\n| --- | --- |\n")
	for _, who := range slices.SortedFunc(maps.Keys(operations), func(a, b string) int {
		return cmp.Or(len(operations[b])-len(operations[a]), cmp.Compare(a, b))
	}) {
		slices.Sort(operations[who])
		table.WriteString("| " + who + " | `" + strings.Join(operations[who], "`, `") + "` |\n")
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "authentication.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), table.String()) {
		t.Errorf("docs/guides/authentication.md does not have what was found:\n%s", table.String())
	}
}
