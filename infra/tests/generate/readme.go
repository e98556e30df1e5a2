package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-config-inspect/tfconfig"
)

// What is between these lines of a README.md is generated.
const (
	begin = "<!-- Inputs and outputs: generated from the module. To write them again: make generate -->\n"
	end   = "<!-- End of what is generated -->\n"
)

// readme is the module's README.md with the lists of inputs and outputs.
func (m module) readme(dir string) (string, error) {
	content, err := os.ReadFile(filepath.Join(dir, "README.md")) //nolint:gosec // a file of the repository
	if err != nil {
		return "", err
	}
	before, rest, ok := strings.Cut(string(content), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("README.md has no lines\n%s%s", begin, end)
	}
	c, diagnostics := tfconfig.LoadModule(dir)
	if diagnostics.HasErrors() {
		return "", diagnostics
	}
	var b strings.Builder
	b.WriteString(before + begin + "\n## Inputs\n\n")
	if len(c.Variables) == 0 {
		b.WriteString("None.\n")
	} else {
		b.WriteString("Required ones first.\n\n| Name | Type | Default | Meaning |\n| --- | --- | --- | --- |\n")
	}
	for _, v := range inputs(c) {
		if v.Description == "" || v.Type == "" {
			return "", fmt.Errorf("the variable %s has no description or no type", v.Name)
		}
		byDefault := "required"
		if !v.Required {
			byDefault = "`" + code(asJSON(v.Default)) + "`"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", v.Name, code(strings.Join(strings.Fields(v.Type), " ")), byDefault,
			cell(v.Description))
	}
	b.WriteString("\n## Outputs\n\n")
	if len(c.Outputs) == 0 {
		b.WriteString("None.\n")
	} else {
		b.WriteString("| Name | Meaning |\n| --- | --- |\n")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Outputs)) {
		if c.Outputs[name].Description == "" {
			return "", fmt.Errorf("the output %s has no description", name)
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, cell(c.Outputs[name].Description))
	}
	return b.String() + "\n" + end + after, nil
}

// inputs are the module's variables: required ones first.
func inputs(c *tfconfig.Module) []*tfconfig.Variable {
	rank := map[bool]int{true: 0, false: 1}
	return slices.SortedFunc(maps.Values(c.Variables), func(a, b *tfconfig.Variable) int {
		return cmp.Or(cmp.Compare(rank[a.Required], rank[b.Required]), cmp.Compare(a.Name, b.Name))
	})
}

func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

func code(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

func cell(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`)
}
