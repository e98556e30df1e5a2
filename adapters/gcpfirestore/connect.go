package gcpfirestore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	vkit "cloud.google.com/go/firestore/apiv1"
	"google.golang.org/api/option"
	"google.golang.org/api/transport"
	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/leasehold-dev/leasehold/internal/conns"
)

// emulatorVariable names the emulator in the environment, for all of Google's client libraries.
const emulatorVariable = "FIRESTORE_EMULATOR_HOST"

// keepAlive finds out that a connection is dead on which nothing is asked, but listened: [conns.Set] does the rest.
var keepAlive = keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}

// reconnect is how soon a connection is made anew, and how long making one may take: gRPC waits for up to two minutes
// before it tries again, and for 20 seconds on one that is dead from the beginning.
var reconnect = grpc.ConnectParams{
	Backoff: grpcbackoff.Config{
		BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second, //nolint:mnd // as gRPC's own
	},
	MinConnectTimeout: conns.TryTimeout,
}

// dialOptions make connections that are in the set. Where a proxy leads to the service, gRPC dials by itself, for it
// asks no proxy if it is given a dialer; keepAlive then finds the dead ones. dial makes connections instead of the
// system, if it is not nil.
func dialOptions(set *conns.Set, dial conns.Dial, proxied bool) []grpc.DialOption {
	o := []grpc.DialOption{grpc.WithConnectParams(reconnect)}
	if proxied {
		return o
	}
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	dial = set.Track(dial)
	return append(o, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		network := "tcp"
		if path, ok := strings.CutPrefix(address, "unix:"); ok {
			network, address = "unix", path
		}
		return dial(ctx, network, address)
	}))
}

// proxied reports whether the environment names a proxy that leads to the service.
func proxied() bool {
	u, err := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: "https", Host: service}})
	return err != nil || u != nil
}

const service = "firestore.googleapis.com"

// connect makes the client. o is complete.
func connect(ctx context.Context, o Options) (*Store, error) {
	set := &conns.Set{}
	options := []option.ClientOption{option.WithGRPCDialOption(grpc.WithKeepaliveParams(keepAlive))}
	for _, dial := range dialOptions(set, o.dial, proxied()) {
		options = append(options, option.WithGRPCDialOption(dial))
	}
	options = append(options, o.ClientOptions...)
	release := func() error { return nil }
	emulator := os.Getenv(emulatorVariable)
	if emulator != "" {
		conn, err := dialEmulator(emulator, set, o.dial)
		if err != nil {
			return nil, fmt.Errorf("firestore: %s is %q: %w", emulatorVariable, emulator, err)
		}
		release = conn.Close
		options = append([]option.ClientOption{option.WithGRPCConn(conn)}, options...) // the caller's come later and win
	}
	project, err := findProject(ctx, o, emulator != "")
	if err != nil {
		return nil, errors.Join(err, release())
	}
	client, err := vkit.NewClient(ctx, options...)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("firestore: %w: %s", err, credentialsHelp), release())
	}
	// The store repeats requests by itself, because it has to know that it does: see the package's documentation.
	client.CallOptions.BatchGetDocuments = nil
	client.CallOptions.RunQuery = nil
	client.CallOptions.Commit = nil
	client.CallOptions.Listen = nil
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	database := "projects/" + project + "/databases/" + o.Database
	s := &Store{
		client:  client,
		conns:   set,
		shards:  o.IndexShards,
		layout:  layout{database: database, root: o.Root},
		timeout: o.Timeout,
		now:     o.Now,
		release: release,
		life:    life,
		end:     end,
		headers: []string{
			"google-cloud-resource-prefix", database,
			"x-goog-request-params", "project_id=" + url.QueryEscape(project) + "&database_id=" + url.QueryEscape(o.Database),
		},
	}
	if s.shards > 0 {
		s.due = slices.Clone(o.Due)
	}
	return s, nil
}

const credentialsHelp = "run `gcloud auth application-default login`, set GOOGLE_APPLICATION_CREDENTIALS to a key file, " +
	"or set " + emulatorVariable + " for an emulator"

// findProject decides which project it is about.
func findProject(ctx context.Context, o Options, emulator bool) (string, error) {
	project := o.Project
	if project == "" {
		project = os.Getenv("GOOGLE_CLOUD_PROJECT")
	}
	if project == "" && emulator {
		return "", errors.New(
			"firestore: no project: set Options.Project or GOOGLE_CLOUD_PROJECT; an emulator takes any name")
	}
	if project == "" {
		credentials, err := transport.Creds(ctx, o.ClientOptions...)
		if err != nil {
			return "", fmt.Errorf("firestore: no project is named and there are no credentials to tell it: %w: %s",
				err, credentialsHelp)
		}
		if project = credentials.ProjectID; project == "" {
			return "", errors.New("firestore: the credentials belong to no project: set Options.Project or GOOGLE_CLOUD_PROJECT")
		}
	}
	if strings.ContainsAny(project, "/ ") {
		return "", fmt.Errorf("firestore: Project %q is not the ID of a project", project)
	}
	return project, nil
}

// dialEmulator opens a connection in plain text. It connects with the first request.
func dialEmulator(address string, set *conns.Set, dial conns.Dial) (*grpc.ClientConn, error) {
	if _, host, ok := strings.Cut(address, "://"); ok {
		address = host
	}
	return grpc.NewClient("passthrough:///"+address, append(dialOptions(set, dial, false),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithPerRPCCredentials(emulatorOwner{}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))...)
}

// emulatorOwner makes an emulator pass over security rules, as the client libraries do.
type emulatorOwner struct{}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (emulatorOwner) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer owner"}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (emulatorOwner) RequireTransportSecurity() bool { return false }
