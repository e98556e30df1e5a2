package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	root   = "github.com/leasehold-dev/leasehold"
	module = root + "/"
)

// imports are the packages that each package and those below it may import beside the standard library and themselves:
// packages of this module, without the module's path, and packages of others. The longest matching path counts. Tests
// may import anything.
var imports = map[string][]string{
	// Libraries.
	"contracts":                     {},
	"contracts/internal/genschema":  {"go.yaml.in/yaml"},
	"contracts/internal/gencodes":   {"go.yaml.in/yaml"},
	"contracts/internal/genvectors": {"contracts", "kazahana", "repo/placement"},
	"internal/awsconfig":            {"github.com/aws"},
	"internal/backoff":              {},
	"internal/buildinfo":            {},
	"internal/owner":                {},
	"internal/price":                {},
	"internal/bearer":               {},
	"internal/guarded":              {},
	"internal/reread":               {},
	"internal/conns":                {},
	"internal/conns/connstest":      {"internal/conns"},
	"internal/term":                 {},
	"internal/lease":                {"contracts", "internal/backoff"},
	"kazahana":                      {"internal/backoff"},
	"kazahana/otelkazahana":         {"kazahana", "go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/metric"},
	"fence":                         {"contracts", "internal/backoff", "internal/fencing", "internal/term"},
	"internal/fencing":              {},
	"internal/ends":                 {"contracts"},
	"internal/hold":                 {"contracts", "internal/backoff", "internal/lease", "internal/term"},
	"once": {"contracts", "internal/backoff", "internal/fencing", "internal/hold",
		"internal/lease", "internal/owner", "internal/term"},
	"once/calendar": {},
	"idempotency":   {"contracts", "internal/lease", "once"},
	"client": {"cluster", "contracts", "internal/backoff", "internal/bearer", "internal/ends", "internal/fencing",
		"internal/hold", "internal/lease", "kazahana", "locks", "once"},
	"cluster": {"contracts", "internal/backoff", "internal/hold", "internal/lease", "internal/term"},
	"locks": {"contracts", "internal/backoff", "internal/fencing", "internal/hold",
		"internal/lease", "internal/owner", "internal/term"},
	"locks/election": {"contracts", "internal/backoff", "internal/hold", "internal/lease", "locks"},
	"locks/projectlock": {"contracts", "internal/backoff", "internal/fencing", "internal/hold", "internal/lease",
		"internal/owner", "internal/term", "locks"},

	// Rules, and the port through which they touch storage.
	"repo/analysis":              {"repo/docstore", "repo/field", "repo/page", "repo/rule"},
	"repo/census":                {"repo/docstore", "repo/rule"},
	"repo/docstore":              {"internal/term"},
	"repo/docstore/driver":       {"repo/docstore"},
	"repo/docstore/docstoretest": {"repo/docstore", "pgregory.net/rapid", "github.com/anishathalye/porcupine"},
	"repo/field":                 {},
	"repo/lock": {"internal/backoff", "internal/fencing", "repo/census", "repo/docstore", "repo/field",
		"repo/page", "repo/rule"},
	"repo/machineid": {"repo/docstore", "repo/field", "repo/rule", "kazahana"},
	"repo/page":      {"repo/docstore", "repo/field"},
	"repo/placement": {"internal/backoff", "repo/census", "repo/docstore", "repo/field", "repo/rule",
		"github.com/cespare/xxhash"},
	"repo/rates": {"internal/term", "repo/docstore", "repo/rule", "golang.org/x/time"},
	"repo/restore": {"internal/backoff", "repo/analysis", "repo/docstore", "repo/field", "repo/lock", "repo/placement",
		"repo/runs"},
	"repo/rule": {"repo/docstore"},
	"repo/runs": {"repo/analysis", "repo/census", "repo/docstore", "repo/field", "repo/page", "repo/rule"},

	"adapters/awsdynamodb": {"internal/awsconfig", "internal/backoff", "internal/conns", "repo/docstore",
		"github.com/aws"},
	"adapters/awssqs": {"internal/awsconfig", "internal/backoff", "repo/analysis", "github.com/aws"},
	"adapters/gcpcloudtasks": {"repo/analysis", "cloud.google.com/go/cloudtasks", "github.com/googleapis/gax-go",
		"google.golang.org"},
	"adapters/gcpfirestore": {"internal/backoff", "internal/conns", "repo/docstore", "cloud.google.com/go/firestore",
		"google.golang.org"},
	"adapters/redisstore": {"internal/backoff", "internal/conns", "repo/docstore", "github.com/redis/go-redis"},
	"adapters/sqlitestore": {"github.com/go-json-experiment/json", "internal/backoff", "repo/docstore",
		"modernc.org/sqlite"},

	"console": {},

	"functions/aws": {"functions/httpapi", "functions/metrics", "functions/tasks", "contracts", "once", "repo",
		"github.com/aws/aws-lambda-go/events"},
	"functions/aws/lambda": {"adapters/awsdynamodb", "adapters/awssqs", "functions", "internal/buildinfo",
		"repo/analysis", "repo/docstore", "repo/machineid", "github.com/aws/aws-lambda-go/lambda",
		"github.com/aws/aws-lambda-go/lambdacontext"},
	"functions/aws/emf": {"functions/metrics", "go.opentelemetry.io/otel/attribute",
		"go.opentelemetry.io/otel/metric"},
	"functions/aws/ststoken": {"functions/tasks", "internal/awsconfig", "internal/bearer", "github.com/aws/aws-sdk-go-v2"},
	"functions/direct":       {"cluster", "contracts", "fence", "internal/ends", "internal/fencing", "locks", "once", "repo"},
	"functions/gcp": {
		"adapters/gcpcloudtasks", "adapters/gcpfirestore", "cloud.google.com/go/compute/metadata", "contracts",
		"functions", "repo/analysis",
		"internal/buildinfo", "repo/docstore", "repo/machineid", "go.opentelemetry.io/otel/trace",
	},
	"functions/gcp/local": {root, "github.com/GoogleCloudPlatform/functions-framework-go/funcframework"},
	"functions/httpapi": {"repo", "contracts", "functions/direct", "functions/metrics", "functions/telemetry",
		"internal/buildinfo", "internal/fencing", "internal/term", "kazahana", "github.com/go-json-experiment/json"},
	"functions/metrics": {"cluster", "contracts", "functions/telemetry", "repo", "go.opentelemetry.io/otel/attribute",
		"go.opentelemetry.io/otel/metric"},
	"functions/oidc": {"functions/httpapi", "internal/term", "github.com/coreos/go-oidc",
		"github.com/go-jose/go-jose"},
	"functions/otlp":     {"github.com/go-logr/logr", "go.opentelemetry.io/otel"},
	"functions/settings": {"functions/httpapi", "functions/oidc", "functions/tasks", "repo/machineid"},
	"functions/setup": {"console", "functions/direct", "functions/httpapi", "functions/metrics", "functions/oidc",
		"functions/settings", "functions/tasks", "functions/telemetry", "once", "repo/analysis", "repo/census",
		"repo/docstore", "repo/machineid", "repo/placement"},
	"functions/tokenfile": {"functions/httpapi", "internal/reread", "repo/field", "repo/lock"},
	"functions/telemetry": {"repo", "go.opentelemetry.io/otel"},
	"functions/tasks": {"once", "functions/httpapi", "functions/metrics", "functions/telemetry",
		"internal/backoff", "internal/bearer", "internal/lease", "internal/reread", "repo", "contracts",
		"github.com/go-json-experiment/json"},

	// Cloud Functions are registered in the root of the module.
	root: {"functions/gcp", "github.com/GoogleCloudPlatform/functions-framework-go/functions"},

	"emulator/cloudtaskstest": {"emulator/internal", "cloud.google.com/go/cloudtasks",
		"github.com/go-jose/go-jose", "google.golang.org"},
	"emulator/dynamodbtest": {"emulator/internal"},
	"emulator/firestoretest": {"emulator/internal", "cloud.google.com/go/firestore",
		"google.golang.org"},
	"emulator/internal":  {"google.golang.org"},
	"emulator/redistest": {"emulator/internal", "github.com/alicebob/miniredis"},
	"emulator/sqstest":   {"emulator/internal"},

	"examples/internal":  {"functions/httpapi", "repo/docstore"},
	"examples/cronjob":   {"client", "examples/internal", "once"},
	"examples/payments":  {"adapters/sqlitestore", "examples/internal", "functions/direct", "idempotency", "repo/runs"},
	"examples/leader":    {"client", "examples/internal", "locks"},
	"examples/worker":    {"client", "contracts", "fence", "examples/internal", "locks"},
	"examples/pool":      {"client", "examples/internal", "locks"},
	"examples/ratelimit": {"client", "examples/internal", "locks"},
	"examples/config":    {"client", "examples/internal", "locks"},
	"examples/chat":      {"client", "cluster", "contracts", "examples/internal", "golang.org/x/net"},

	"cmd/leasehold": {
		"adapters", "cmd/leasehold/internal", "client", "cluster", "console", "contracts", "emulator",
		"functions", "idempotency", "internal/backoff", "internal/buildinfo", "internal/fencing", "internal/hold", "internal/lease",
		"internal/guarded", "internal/price", "internal/reread", "internal/term", "proof/prove", "kazahana",
		"locks", "once", "repo", "github.com/alecthomas/kong", "github.com/aws/aws-sdk-go-v2", "go.opentelemetry.io/otel",
	},
	"cmd/leasehold/internal/process": {"golang.org/x/sys/unix"},
	"cmd/leasehold/internal/export": {"functions/httpapi", "functions/otlp", "github.com/prometheus/client_golang",
		"go.opentelemetry.io/otel"},

	// What shows that the promises hold: tests import it, and of the product only the command prove.
	"proof/chaos":           {"contracts", "functions/direct", "functions/tasks", "once", "proof/prove", "repo"},
	"proof/conformancetest": {"client", "contracts", "functions/aws", "internal/term", "proof/lambdatest"},
	"proof/contracttest":    {"contracts", "github.com/getkin/kin-openapi"},
	"proof/fencesuite":      {"contracts", "fence", "pgregory.net/rapid"},
	"proof/idsim":           {"kazahana", "proof/chaos", "proof/suite", "repo"},
	"proof/lambdatest":      {"github.com/aws/aws-lambda-go/events"},
	"proof/mutants":         {},
	"proof/placementsim":    {"cluster", "contracts", "functions/direct", "proof/chaos", "repo"},
	"proof/prove": {"contracts", "functions/direct", "internal/ends", "internal/fencing", "internal/lease",
		"internal/term", "kazahana", "once", "repo"},
	"proof/suite": {"contracts", "internal/ends", "internal/lease", "kazahana", "proof/prove", "repo",
		"pgregory.net/rapid", "github.com/anishathalye/porcupine"},

	// End to end, and tables of costs.
	"infra/observability": {},
	"tests":               {"internal/price"},
}

// under reports whether a package is, or lies in, a folder.
func under(pkg, folder string) bool {
	return pkg == folder || strings.HasPrefix(pkg, folder+"/")
}

// entry is the path in imports that a package of this module belongs to.
func entry(pkg string) string {
	best := ""
	for path := range imports {
		if under(pkg, path) && len(path) > len(best) {
			best = path
		}
	}
	return best
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Name, Dir              string
	Imports                            []string
	GoFiles, TestGoFiles, XTestGoFiles []string
}

// goList runs go list with the arguments.
func goList(t *testing.T, args ...string) (packages []listed) {
	t.Helper()
	var stderr bytes.Buffer
	list := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

// TestImportsRunOneWay: libraries import no rules, rules see the port, an adapter sees the port and one SDK, handlers
// see rules, and only the commands that serve see handlers.
func TestImportsRunOneWay(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, p := range goList(t, "-json=ImportPath,Imports", module+"...") {
		pkg := strings.TrimPrefix(p.ImportPath, module)
		e := entry(pkg)
		if e == "" {
			t.Errorf("%s is not in the table: add it, and describe it in ARCHITECTURE.md", pkg)
			continue
		}
		seen[e] = true
		for _, i := range p.Imports {
			if first, _, _ := strings.Cut(i, "/"); !strings.Contains(first, ".") {
				continue // the standard library
			}
			i = strings.TrimPrefix(i, module)
			if under(i, e) && entry(i) == e {
				continue
			}
			if !slices.ContainsFunc(imports[e], func(allowed string) bool { return under(i, allowed) }) {
				t.Errorf("%s imports %s; %s may import %v", pkg, i, e, imports[e])
			}
		}
	}
	for e := range imports {
		if !seen[e] {
			t.Errorf("%s has no packages: remove it from the table", e)
		}
	}
}

// TestPackageNames: each package of the module has a name of its own, which is not that of a package that it imports
// from another module, so no file needs an alias for a package of this module.
func TestPackageNames(t *testing.T) {
	t.Parallel()
	packages := goList(t, "-json=ImportPath,Name,Dir,Imports,GoFiles,TestGoFiles,XTestGoFiles", module+"...")
	names := map[string]string{} // by import path
	for _, p := range goList(t, "-deps", "-json=ImportPath,Name", module+"...") {
		names[p.ImportPath] = p.Name
	}
	first := map[string]string{}
	for _, p := range packages {
		if p.Name == "main" {
			continue
		}
		if other, ok := first[p.Name]; ok {
			t.Errorf("%s and %s are both named %s", other, p.ImportPath, p.Name)
		}
		first[p.Name] = p.ImportPath
		for _, i := range p.Imports {
			if p.ImportPath == module+"functions/oidc" {
				continue // named after the standard that it checks; it hides the library, and no file uses both
			}
			if strings.Contains(i, ".") && !under(i, root) && names[i] == p.Name {
				t.Errorf("%s has the name of %s, which it imports", p.ImportPath, i)
			}
		}
	}
	for _, p := range packages {
		for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			path := filepath.Join(p.Dir, name)
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range file.Imports {
				target, err := strconv.Unquote(i.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				if i.Name != nil && i.Name.Name != "_" && under(target, root) {
					t.Errorf("%s imports %s as %s", path, target, i.Name.Name)
				}
			}
		}
	}
}
