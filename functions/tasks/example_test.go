package tasks_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// A worker whose work is a Go function, behind the endpoint for Cloud Tasks. The message comes twice.
func ExampleEndpoint() {
	ctx := context.Background()
	store := docstore.NewMemory(nil) // in earnest: adapters/gcpfirestore
	_, err := store.Write(ctx, docstore.Write{
		Key: docstore.Key{Kind: analysis.Kind, ID: "a-1024"}, Set: docstore.Doc{"title": docstore.String("holiday.mp4"),
			"lockToken": docstore.Int(0)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	route, err := tasks.Endpoint{
		Worker: &tasks.Worker{
			Gate: direct.Analyses(analysis.New(store, nil)),
			Work: func(_ context.Context, l once.Lock) (string, error) {
				fmt.Println("running", l.RunID, "under token", l.Token)
				return "gs://results/" + l.RunID, nil
			},
		},
		Guard: tasks.Platform{}, // in earnest: oidc.NewAccount, unless the platform checks callers
	}.Route(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(httpapi.Handler([]httpapi.Route{route}, nil))
	defer server.Close()
	for range 2 {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+tasks.TaskPath,
			strings.NewReader(`{"analysisId":"a-1024"}`))
		if err != nil {
			fmt.Println(err)
			return
		}
		a, err := server.Client().Do(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(a.Status)
		_ = a.Body.Close()
	}
	// Output:
	// running a-1024 under token 1
	// 200 OK
	// 200 OK
}
