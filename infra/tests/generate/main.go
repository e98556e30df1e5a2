// Command generate writes the generated files of infra/: in modules that have settings of Leasehold as variables, the
// file settings.tf, from the table of settings; copies of files; and in the README.md of each module, between two
// comments, the lists of its inputs and outputs. Its argument is the folder infra; the default is "..".
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/leasehold-dev/leasehold/functions/settings"
)

// module is a folder of Terraform files with a README.md.
type module struct {
	dir      string // below infra
	settings []values
	given    []string // settings that the module decides on itself, and so are no variables
	copies   string   // file of the repository that the module has a copy of, for who changes it there
}

// values is a local value of a module: the environment of one entry point, as far as it consists of settings that are
// variables.
type values struct {
	name  string
	entry settings.Entry
}

// modules are all modules with generated parts.
var modules = []module{
	{dir: "aws/table"},
	{
		dir: "aws/functions",
		settings: []values{{"settings_api", settings.LambdaAPI}, {"settings_worker", settings.LambdaWorker},
			{"settings_sweep", settings.LambdaSweep}},
		given: []string{
			"LEASEHOLD_TABLE", "LEASEHOLD_REGION", "LEASEHOLD_ENDPOINT", "LEASEHOLD_BASE_PATH", "LEASEHOLD_FRONT_DOOR",
			"LEASEHOLD_QUEUE_URL", "LEASEHOLD_TARGET_TOKEN_FILE",
		},
	},
	{dir: "aws/deploy-role"},
	{dir: "aws/examples/minimal"},
	{dir: "aws/examples/production/table"},
	{dir: "aws/examples/production/functions"},
	{dir: "gcp/database", copies: "adapters/gcpfirestore/firestore.indexes.json"},
	{
		dir: "gcp/functions",
		settings: []values{{"settings_api", settings.FunctionAPI}, {"settings_tasks", settings.FunctionTasks},
			{"settings_sweep", settings.FunctionSweep}},
		given: []string{
			"LEASEHOLD_PROJECT", "LEASEHOLD_DATABASE", "LEASEHOLD_AUTH_ISSUER", "LEASEHOLD_AUTH_AUDIENCE",
			"LEASEHOLD_DEVELOPMENT",
			"LEASEHOLD_TARGET_TOKEN", "LEASEHOLD_TARGET_TOKEN_FILE", "LEASEHOLD_TASK_AUTH", "LEASEHOLD_TASK_ISSUER",
			"LEASEHOLD_TASK_AUDIENCE",
			"LEASEHOLD_TASK_ACCOUNT", "LEASEHOLD_SWEEP_ACCOUNT", "LEASEHOLD_TASK_QUEUE", "LEASEHOLD_TASK_URL",
		},
	},
	{dir: "gcp/deploy-role"},
	{dir: "gcp/examples/minimal"},
	{dir: "gcp/examples/production/database"},
	{dir: "gcp/examples/production/functions"},
}

func main() {
	infra := ".."
	if len(os.Args) > 1 {
		infra = os.Args[1]
	}
	for _, m := range modules {
		files, err := m.generate(infra, filepath.Join(infra, ".."))
		if err != nil {
			fmt.Fprintf(os.Stderr, "generate: %s: %v\n", m.dir, err)
			os.Exit(1)
		}
		for name, content := range files {
			//nolint:gosec // sources that everybody may read
			if err := os.WriteFile(filepath.Join(infra, m.dir, name), []byte(content),
				0o644); err != nil {
				fmt.Fprintf(os.Stderr, "generate: %v\n", err)
				os.Exit(1)
			}
		}
	}
}

// generate returns the generated files of a module, by their names. The folder infra may be a copy, which is not in the
// repository.
func (m module) generate(infra, repository string) (map[string]string, error) {
	dir := filepath.Join(infra, m.dir)
	files := map[string]string{}
	if m.settings != nil {
		files["settings.tf"] = m.variables()
		// The README.md lists them, so that they must be there before it is made.
		//nolint:gosec // see above
		if err := os.WriteFile(filepath.Join(dir, "settings.tf"), []byte(files["settings.tf"]),
			0o644); err != nil {
			return nil, err
		}
	}
	if m.copies != "" {
		content, err := os.ReadFile(filepath.Join(repository, m.copies)) //nolint:gosec // a file of the repository
		if err != nil {
			return nil, err
		}
		files[filepath.Base(m.copies)] = string(content)
	}
	readme, err := m.readme(dir)
	files["README.md"] = readme
	return files, err
}
