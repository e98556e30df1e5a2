package tests

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/contracts"
)

// TestTypeScriptPackage: what can be seen without Node: the package depends on nothing, what it exports has a source,
// for import and for require, and each code of the contract has its class.
func TestTypeScriptPackage(t *testing.T) {
	t.Parallel()
	sdk := filepath.Join("..", "sdk", "typescript")
	var manifest struct {
		Type                                    string
		Dependencies, PeerDependencies, Scripts map[string]string
		Exports                                 map[string]json.RawMessage
	}
	content, err := os.ReadFile(filepath.Join(sdk, "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.Type != "module" || len(manifest.Dependencies)+len(manifest.PeerDependencies) > 0 {
		t.Errorf("package.json: type %q, dependencies %v and %v: it must be a module without any", manifest.Type,
			manifest.Dependencies, manifest.PeerDependencies)
	}
	for _, script := range []string{"preinstall", "install", "postinstall", "prepare"} {
		if manifest.Scripts[script] != "" {
			t.Errorf("package.json has the script %s, which npm would run where the package is installed", script)
		}
	}
	entries := 0
	for entry, raw := range manifest.Exports {
		type file struct{ Types, Default string }
		var to struct{ Import, Require file }
		if json.Unmarshal(raw, &to) != nil {
			continue // ./package.json
		}
		entries++
		name := strings.TrimSuffix(strings.TrimPrefix(to.Import.Default, "./dist/"), ".js")
		for at, got := range map[string]file{"./dist/": to.Import, "./dist/cjs/": to.Require} {
			if want := (file{at + name + ".d.ts", at + name + ".js"}); got != want {
				t.Errorf("the export %s has %s, not %s", entry, got, want)
			}
		}
		if _, err := os.Stat(filepath.Join(sdk, "src", name+".ts")); err != nil {
			t.Errorf("the export %s: %v", entry, err)
		}
	}
	classes, err := os.ReadFile(filepath.Join(sdk, "src", "codes.gen.ts"))
	if err != nil {
		t.Fatal(err)
	}
	exports, err := os.ReadFile(filepath.Join(sdk, "src", "errors.ts"))
	if err != nil {
		t.Fatal(err)
	}
	_, codes, _ := strings.Cut(string(contracts.OpenAPI), "description: What happened, for programs.\n      enum:\n")
	for line := range strings.Lines(codes) {
		code, ok := strings.CutPrefix(strings.TrimSpace(line), "- ")
		if !ok {
			break
		}
		var name strings.Builder // LOCK_HELD is a LockHeldError
		for word := range strings.SplitSeq(code, "_") {
			name.WriteString(word[:1] + strings.ToLower(word[1:]))
		}
		class := name.String() + "Error"
		entries++
		placement := slices.Contains(ofPlacement, code) // of which the package has no client
		if exported := strings.Contains(string(exports), " "+class+","); exported == placement {
			t.Errorf("src/errors.ts exports %s: %t", class, exported)
		}
		want := "export const " + class + " = /* @__PURE__ */ of('" + code + "')"
		if has := strings.Contains(string(classes), want); has == placement {
			t.Errorf("src/codes.gen.ts has %q: %t", want, has)
		}
	}
	if entries < 21 {
		t.Errorf("looked at %d exports and codes: there are more", entries)
	}
}

// TestVersionsOfTheClients: the packages of other languages have one version, in each file that says it.
func TestVersionsOfTheClients(t *testing.T) {
	t.Parallel()
	said := map[string]string{}
	for file, pattern := range map[string]string{
		"typescript/package.json":          `(?m)^  "version": "([^"]+)",$`,
		"typescript/package-lock.json":     `(?m)^  "version": "([^"]+)",$`,
		"python/pyproject.toml":            `(?m)^version = "([^"]+)"$`,
		"python/src/leasehold/__init__.py": `(?m)^__version__ = "([^"]+)"$`,
	} {
		content, err := os.ReadFile(filepath.Join("..", "sdk", filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(pattern).FindSubmatch(content)
		if found == nil {
			t.Fatalf("sdk/%s has no version", file)
		}
		said[string(found[1])] = file
	}
	if len(said) != 1 {
		t.Errorf("versions of the clients: %v", said)
	}
}

// ofPlacement are the codes of placement.
var ofPlacement = []string{
	"CURSOR_EXPIRED", "TOPOLOGY_UNDETERMINED", "NO_ELIGIBLE_MEMBER", "MEMBER_INELIGIBLE", "STALE_EPOCH",
	"ACTIVATION_EXISTS", "ACTIVATION_LOCKED", "ACTIVATION_FAILED", "WRONG_PHASE", "STATE_CHANGED", "MEMBER_EXISTS",
	"MEMBER_UNKNOWN", "STALE_INCARNATION", "CLUSTER_FULL", "CLUSTER_DIFFERS", "PLACEMENT_LIMIT",
}

// TestTypeScriptClient: the client in TypeScript passes the type checker, the conformance scripts, the test vectors and
// its own tests. .ci/sdk/typescript has more: a server that is killed and frozen, a browser, other runtimes, the
// examples.
func TestTypeScriptClient(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node on the PATH; install Node 20 or later and npm, and run: .ci/sdk/typescript")
	}
	sdk := filepath.Join("..", "sdk", "typescript")
	compiler := filepath.Join("node_modules", "typescript", "bin", "tsc")
	if _, err := os.Stat(filepath.Join(sdk, compiler)); err != nil {
		t.Skip(
			"the TypeScript compiler is not installed: cd sdk/typescript && npm ci --ignore-scripts, or run all: .ci/sdk/typescript")
	}
	player := build(t, "contracts/conformance/player")
	for _, args := range [][]string{
		{compiler, "-p", "tsconfig.json"},
		{"--test", "build/test/conformance.test.js", "build/test/ids.test.js", "build/test/locks.test.js",
			"build/test/once.test.js", "build/test/projectlock.test.js"},
	} {
		run := exec.CommandContext(t.Context(), node, args...)
		run.Dir = sdk
		run.Env = append(os.Environ(), "LEASEHOLD_PLAYER="+player)
		if out, err := run.CombinedOutput(); err != nil {
			t.Fatalf("node %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
