package contracts_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/contracts"
)

// all lists the codes of the contract, in its order, read from the document itself.
func all(t *testing.T) []contracts.Code {
	t.Helper()
	_, rest, ok := strings.Cut(string(contracts.OpenAPI), "description: What happened, for programs.\n      enum:\n")
	if !ok {
		t.Fatal("openapi.yaml has no enum of codes where it is expected")
	}
	var codes []contracts.Code
	for line := range strings.Lines(rest) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "- ")
		if !ok {
			break
		}
		codes = append(codes, contracts.Code(name))
	}
	return codes
}

func TestEveryCodeHasItsMeaning(t *testing.T) {
	codes := all(t)
	if len(codes) < 17 {
		t.Fatalf("found only %d codes", len(codes))
	}
	for _, c := range codes {
		info, ok := c.Info()
		if !ok || info.Status < 400 || info.Title == "" {
			t.Errorf("%s: %+v, %v", c, info, ok)
		}
		if !c.Valid() {
			t.Errorf("%s is not among the generated codes: run make generate", c)
		}
	}
	if _, ok := contracts.Code("TEAPOT").Info(); ok {
		t.Error("an unknown code has a meaning")
	}
}

// TestEveryCodeIsExplained: a problem's type leads to a heading of docs/reference/errors.md, which has the table's
// status and title.
func TestEveryCodeIsExplained(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "reference", "errors.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all(t) {
		if !strings.Contains(string(page), "\n## "+string(c)+"\n") {
			t.Errorf("docs/reference/errors.md has no heading %q", "## "+string(c))
		}
		info, _ := c.Info()
		not := map[bool]string{false: "not "}[info.Retryable]
		if want := fmt.Sprintf("\n## %s\n\n%d, %sretryable: %s.\n", c, info.Status, not,
			info.Title); !strings.Contains(string(page), want) {
			t.Errorf("docs/reference/errors.md does not have %q", want)
		}
		if want := "#" + strings.ToLower(string(c)); !strings.HasSuffix(c.TypeURI(), want) {
			t.Errorf("%s has the type %s", c, c.TypeURI())
		}
	}
}
