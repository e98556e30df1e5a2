package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/functions/setup"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// names are the workers.
var names = []string{"A", "B", "C"}

// Options are the settings of [Run] and [Check].
type Options struct {
	Executable string           // the program that [Work] is run in, see [startChild]
	Listen     string           // address of this machine
	Open       func(url string) // for Run: shows the page to the reader; nil: they open it
	JSON       bool             // for Check: one JSON object a line, for machines
}

// Work is a worker process of the page, or of a scene, which has an analysis for it.
func Work(ctx context.Context, server, name, analysis string, in io.Reader, out io.Writer) error {
	if analysis != "" {
		return analyse(ctx, server, analysis, name, in, out)
	}
	return pay(ctx, server, name, in)
}

// Run serves the page until the context ends, and writes to out where it is. No worker outlives it.
func Run(ctx context.Context, out io.Writer, o Options) (err error) {
	server, err := listen(ctx, o.Listen)
	if err != nil {
		return err
	}
	defer server.close()
	p := &page{executable: o.Executable, url: server.url, emulator: dynamodbtest.New(nil), round: 1, story: []event{},
		unfenced: &unfenced{account: newAccount()}, fenced: &fenced{account: newAccount()}}
	p.changed = sync.NewCond(&p.mu)
	store, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	c, err := client.New(p.url, nil)
	if err != nil {
		return err
	}
	p.fences = c.Fences()
	api := setup.API(&settings.Config{
		Console: true, RequestTimeout: 10 * time.Second, MaxWait: httpapi.DefaultMaxWait,
	}, nil, slog.New(slog.DiscardHandler))
	api.Routes = append(api.Routes, p.routes()...)
	api.Stop = ctx.Done()
	ended := server.serve(httpapi.New(store, httpapi.Development{}, api))
	defer func() {
		p.endWorkers()
		server.close()    // the page is told nothing more, and whoever waits for scenes is gone
		p.checking.Lock() // they have ended
	}()
	for _, name := range names {
		p.workers = append(p.workers, &hired{Name: name, State: dead})
	}
	if err := p.startAll(); err != nil {
		return err
	}
	url := p.url + pagePath
	fmt.Fprintf(out, "Open %s\n\n"+
		"Three worker processes share a lock. Freeze one of them, and see what it writes when it wakes up.\n"+
		"The console is at %s/console/. Stop with Ctrl-C.\n", url, p.url)
	if o.Open != nil {
		o.Open(url)
	}
	select {
	case err := <-ended:
		return fmt.Errorf("the server ended: %w", err)
	case <-ctx.Done():
		return nil
	}
}

// page is all that the page shows, and its workers.
type page struct {
	executable, url string
	emulator        *dynamodbtest.Server
	fences          *client.Fences
	checking        sync.Mutex // held while scenes are played

	mu       sync.Mutex
	changed  *sync.Cond // something that one waits for may have happened
	round    int        // how often it was begun; writes of earlier rounds are dropped
	unfenced *unfenced
	fenced   *fenced
	workers  []*hired
	first    int64 // token of the first lease, for people to count from
	turns    int   // writes, since the process began
	told     int   // events
	story    []event
	ending   bool
}

// open opens the store: the emulator of DynamoDB counts what the service would bill.
func (p *page) open(ctx context.Context) (docstore.Store, error) {
	service := dynamodb.New(dynamodb.Options{
		Region: "local", BaseEndpoint: aws.String("http://dynamodb.local"),
		Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
		HTTPClient:  &http.Client{Transport: p.emulator.RoundTripper()},
	})
	store, err := awsdynamodb.Open(ctx, "leasehold", &awsdynamodb.Options{Client: service, CreateTable: true,
		MaxSkew: awsdynamodb.TrustClock})
	p.emulator.ResetCounts() // a table is made once
	return store, err
}
