package client_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/lease"
	"github.com/leasehold-dev/leasehold/kazahana"
)

// TestJudged: which responses say that the same request would be rejected again, and which are for the operator of an
// ID generator. The clients in other languages are asked the same about the same responses.
func TestJudged(t *testing.T) {
	var vectors struct {
		Codes     []json.RawMessage
		Responses []struct {
			Status               int
			Page                 string
			Code                 contracts.Code
			Retryable            *bool
			Final, Configuration bool
		}
	}
	content, err := os.ReadFile(filepath.Join("..", "contracts", "vectors", "errors.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &vectors); err != nil || len(vectors.Responses) < 3*len(vectors.Codes) ||
		len(vectors.Codes) < 50 {
		t.Fatalf("%d codes, %d responses: %v", len(vectors.Codes), len(vectors.Responses), err)
	}
	for _, v := range vectors.Responses {
		mediaType, body := v.Page, map[string]any{"title": "a page"}
		if v.Page == "" {
			mediaType, body = "application/problem+json", map[string]any{"code": v.Code, "title": "rejected", "status": 400}
		}
		if v.Retryable != nil {
			body["retryable"] = *v.Retryable
		}
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.New("https://locks.example.com",
			&client.Options{HTTP: &http.Client{Transport: answering(v.Status, mediaType, string(text))}, Tries: 1})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.LockAPI().Get(t.Context(), "acme", "deploy-prod")
		if err == nil || lease.Final(err) != v.Final || contracts.Final(err) != v.Final {
			t.Errorf("%d %s%s %s: final is %v, want %v: %v", v.Status, v.Code, v.Page, text, lease.Final(err), v.Final, err)
		}
		_, err = c.MachineIDs().Acquire(t.Context(), kazahana.AcquireOptions{})
		if got := errors.Is(err, kazahana.ErrConfiguration); err == nil || got != v.Configuration {
			t.Errorf("%d %s%s %s: configuration is %v, want %v: %v", v.Status, v.Code, v.Page, text, got, v.Configuration, err)
		}
	}
}
