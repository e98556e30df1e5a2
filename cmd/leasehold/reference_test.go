package main

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

var update = flag.Bool("update", false, "write the generated part of docs/reference/cli.md")

// generated is the line of docs/reference/cli.md below which the reference is.
const generated = "<!-- Generated from cmd/leasehold. To write it again: go test ./cmd/leasehold -run TestDocumentation -update -->\n"

// describeAll is the reference of the whole command line.
func describeAll(t *testing.T) *reference {
	t.Helper()
	c := newCLI()
	parser, err := kong.New(&c, kong.Name("leasehold"), kong.Description(description))
	if err != nil {
		t.Fatal(err)
	}
	return describe(parser.Model.Node, nil)
}

// TestDocumentation: the reference of docs/reference/cli.md is made from the table from which the command line is
// parsed.
func TestDocumentation(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "reference", "cli.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	written, old, ok := strings.Cut(string(page), generated)
	if !ok {
		t.Fatalf("%s has no line %s", path, generated)
	}
	want := markdown(describeAll(t))
	if *update {
		if err := os.WriteFile(path, []byte(written+generated+want), 0o600); err != nil {
			t.Fatal(err)
		}
	} else if old != want {
		t.Errorf("%s is not what cmd/leasehold says: run go test ./cmd/leasehold -run TestDocumentation -update", path)
	}
	for _, r := range describeAll(t).all() { // each command and each flag has a help that is a sentence
		for _, e := range append([]entry{{r.name(), r.help}}, append(r.args, r.flags...)...) {
			if !strings.HasSuffix(e.help, ".") && !strings.HasSuffix(e.help, ".)") {
				t.Errorf("%s: %s: %q is no sentence", r.name(), e.name, e.help)
			}
		}
	}
}

// TestPassages: a help text is paragraphs and what is shown as it is.
func TestPassages(t *testing.T) {
	got := passages("One\ntwo:\n\n  code  a\n    b\n\nThree.\n  code\n")
	want := []passage{{[]string{"One", "two:"}, false}, {[]string{"code  a", "  b"}, true}, {[]string{"Three."}, false},
		{[]string{"code"}, true}}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if strings.Join(got[i].lines, "\n") != strings.Join(want[i].lines, "\n") || got[i].asIs != want[i].asIs {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
}

// TestManPages: each command has a page that the programs that show them accept, and that has what the help has.
func TestManPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	var out, errs strings.Builder
	if code := run(t.Context(), []string{"man", "--dir", dir}, &out, &errs); code != exitOK {
		t.Fatalf("%d %s", code, &errs)
	}
	all := describeAll(t).all()
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) != len(all) {
		t.Fatalf("%d pages of %d commands, %v", len(pages), len(all), err)
	}
	for args, want := range map[string]string{
		"man":                   `.TH "LEASEHOLD" "1"`,
		"man lock acquire":      `.TH "LEASEHOLD\-LOCK\-ACQUIRE" "1"`,
		"man lock nothing":      "",
		"man lock --dir /x/y/z": "",
	} {
		out.Reset()
		if code := run(t.Context(), strings.Fields(args), &out, &errs); (code == exitOK) != (want != "") ||
			!strings.HasPrefix(out.String(), want) {
			t.Errorf("%s: %d %.80s", args, code, &out)
		}
	}
	for name, lint := range map[string][]string{
		"groff":  {"-man", "-Tutf8", "-ww", "-z"},
		"mandoc": {"-T", "lint", "-W", "error"},
	} {
		t.Run(name, func(t *testing.T) {
			path, err := exec.LookPath(name)
			if err != nil {
				t.Skipf("%s is not installed (the gate installs it): %v", name, err)
			}
			complaints, err := exec.CommandContext(t.Context(), path, append(lint, pages...)...).CombinedOutput()
			if err != nil || len(bytes.TrimSpace(complaints)) > 0 {
				t.Errorf("%v\n%.4000s", err, complaints)
			}
		})
	}
}

// TestRoff: what means something to roff is text.
func TestRoff(t *testing.T) {
	for in, want := range map[string]string{
		".TH": `\&.TH`, "'x": `\(aqx`, `a\n`: `a\en`, "--ttl": `\-\-ttl`, "a…": `a\[u2026]`, "a.b": "a.b",
	} {
		if got := roffLine(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
