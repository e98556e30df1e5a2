// Command generate writes the generated files of infra/: copies of files; and in the README.md of each module, between
// two comments, the lists of its inputs and outputs. Its argument is the folder infra; the default is "..".
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// module is a folder of Terraform files with a README.md.
type module struct {
	dir    string // below infra
	copies string // file of the repository that the module has a copy of, for who changes it there
}

// modules are all modules with generated parts.
var modules = []module{
	{dir: "aws/table"},
	{dir: "aws/functions"},
	{dir: "aws/deploy-role"},
	{dir: "aws/examples/minimal"},
	{dir: "aws/examples/production/table"},
	{dir: "aws/examples/production/functions"},
	{dir: "gcp/database", copies: "adapters/gcpfirestore/firestore.indexes.json"},
	{dir: "gcp/functions"},
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
