package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const (
	root   = "github.com/leasehold-dev/leasehold"
	module = root + "/"
)

// rooms says what each room may import beside the standard library and itself: rooms of this module (without the module's
// path) and packages of others. The longest matching name counts. Tests may import what they like.
var rooms = map[string][]string{
	// Libraries.
	"contracts":                     {},
	"contracts/internal/genschema":  {"go.yaml.in/yaml"},
	"contracts/internal/genvectors": {"kazahana"},
	"internal/backoff":              {},
	"kazahana":                      {"internal/backoff"},
	"once":                          {"contracts", "internal/backoff"},
	"client":                        {"contracts", "internal/backoff", "kazahana", "once"},

	// Rules, and the port through which they touch storage.
	"repo/analysis":              {"repo/docstore", "repo/field"},
	"repo/docstore":              {},
	"repo/docstore/driver":       {"repo/docstore"},
	"repo/docstore/docstoretest": {"repo/docstore", "pgregory.net/rapid"},
	"repo/field":                 {},
	"repo/lock":                  {"repo/docstore", "repo/field"},
	"repo/machineid":             {"repo/docstore", "repo/field", "kazahana"},

	"adapters/internal/awsconfig": {"github.com/aws"},
	"adapters/awsdynamodb":        {"adapters/internal/awsconfig", "internal/backoff", "repo/docstore", "github.com/aws"},
	"adapters/awssqs":             {"adapters/internal/awsconfig", "internal/backoff", "repo/analysis", "github.com/aws"},
	"adapters/gcpcloudtasks":      {"repo/analysis", "cloud.google.com/go/cloudtasks", "github.com/googleapis/gax-go", "google.golang.org"},
	"adapters/gcpfirestore":       {"internal/backoff", "repo/docstore", "cloud.google.com/go/firestore", "google.golang.org"},
	"adapters/redisstore":         {"internal/backoff", "repo/docstore", "github.com/redis/go-redis"},
	"adapters/sqlitestore":        {"github.com/go-json-experiment/json", "internal/backoff", "repo/docstore", "modernc.org/sqlite"},

	"functions/aws":          {"functions/httpapi", "functions/tasks", "contracts", "once", "repo", "github.com/aws/aws-lambda-go/events"},
	"functions/aws/lambda":   {"adapters/awsdynamodb", "adapters/awssqs", "functions", "repo/analysis", "repo/machineid", "github.com/aws/aws-lambda-go/lambda"},
	"functions/aws/ststoken": {"functions/tasks", "github.com/aws/aws-sdk-go-v2"},
	"functions/gcp": {
		"adapters/gcpcloudtasks", "adapters/gcpfirestore", "cloud.google.com/go/compute/metadata", "contracts", "functions", "repo/analysis",
		"repo/docstore", "repo/machineid",
	},
	"functions/gcp/local": {root, "github.com/GoogleCloudPlatform/functions-framework-go/funcframework"},
	"functions/httpapi":   {"repo", "contracts", "kazahana", "github.com/go-json-experiment/json"},
	"functions/oidc":      {"functions/httpapi", "github.com/coreos/go-oidc", "github.com/go-jose/go-jose"},
	"functions/settings":  {"functions/httpapi", "functions/oidc", "functions/tasks", "repo/machineid"},
	"functions/setup":     {"functions/httpapi", "functions/oidc", "functions/settings", "functions/tasks", "repo/analysis", "repo/docstore"},
	"functions/tasks":     {"once", "functions/httpapi", "repo", "contracts", "github.com/go-json-experiment/json"},

	// Cloud Functions are registered in the root of the module.
	root: {"functions/gcp", "github.com/GoogleCloudPlatform/functions-framework-go/functions"},

	"emulator/cloudtaskstest": {"emulator/internal", "cloud.google.com/go/cloudtasks", "github.com/go-jose/go-jose", "google.golang.org"},
	"emulator/dynamodbtest":   {"emulator/internal"},
	"emulator/firestoretest":  {"emulator/internal", "cloud.google.com/go/firestore", "google.golang.org"},
	"emulator/internal":       {"google.golang.org"},
	"emulator/redistest":      {"emulator/internal", "github.com/alicebob/miniredis"},
	"emulator/sqstest":        {"emulator/internal"},

	"cmd/leasehold": {"adapters", "client", "contracts", "emulator", "functions", "kazahana", "once", "repo", "github.com/alecthomas/kong"},

	// What only tests import.
	"internal/contracttest": {"contracts", "github.com/getkin/kin-openapi"},
	"internal/suite":        {"contracts", "functions/httpapi", "kazahana", "repo", "pgregory.net/rapid", "github.com/anishathalye/porcupine"},
	"tests":                 {"contracts", "functions/tasks", "internal/suite", "kazahana", "once", "repo"},
	"tests/bench":           {},
}

// under reports whether a package is, or lies in, a folder.
func under(pkg, folder string) bool {
	return pkg == folder || strings.HasPrefix(pkg, folder+"/")
}

// room is the entry of rooms that a package of this module belongs to.
func room(pkg string) string {
	best := ""
	for r := range rooms {
		if under(pkg, r) && len(r) > len(best) {
			best = r
		}
	}
	return best
}

// TestImportsRunOneWay: clients see contracts, rules see the port, adapters see the port and one SDK, doors see rules, and
// nobody sees a door but the command that opens it.
func TestImportsRunOneWay(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	list := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", module+"...")
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	seen := map[string]bool{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		pkg := strings.TrimPrefix(p.ImportPath, module)
		r := room(pkg)
		if r == "" {
			t.Errorf("%s belongs to no room: add it to the table, and to ARCHITECTURE.md", pkg)
			continue
		}
		seen[r] = true
		for _, i := range p.Imports {
			if first, _, _ := strings.Cut(i, "/"); !strings.Contains(first, ".") {
				continue // the standard library
			}
			i = strings.TrimPrefix(i, module)
			if under(i, r) && room(i) == r {
				continue
			}
			if !slices.ContainsFunc(rooms[r], func(allowed string) bool { return under(i, allowed) }) {
				t.Errorf("%s imports %s; %s may import %v", pkg, i, r, rooms[r])
			}
		}
	}
	for r := range rooms {
		if !seen[r] {
			t.Errorf("the room %s has no packages: take it out of the table", r)
		}
	}
}
