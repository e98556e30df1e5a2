// Gencodes writes what is made from contracts/codes.yaml, the table of error codes: the table in Go, the enum of the
// OpenAPI document, the page about errors and the texts of the console. Its argument is the module's folder: gencodes
// ..
package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/format"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: gencodes folder")
	}
	files, err := Files(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(os.Args[1], name), content, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// Row is a code and what it means.
type Row struct {
	Code      string `yaml:"code"`
	Status    int    `yaml:"status"`
	Retryable *bool  `yaml:"retryable"`
	Final     bool   `yaml:"final"`
	Title     string `yaml:"title"`
	Console   struct {
		English  string `yaml:"en"`
		Japanese string `yaml:"ja"`
	} `yaml:"console"`
	Text string `yaml:"text"`
}

// Rows reads the table. Rejections of requests (4xx) are final if they are not retryable; of the others a row says so.
func Rows(table []byte) ([]Row, error) {
	var rows []Row
	d := yaml.NewDecoder(bytes.NewReader(table))
	d.KnownFields(true)
	if err := d.Decode(&rows); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for i := range rows {
		r := &rows[i]
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("code %q: %w", r.Code, err)
		}
		if seen[r.Code] {
			return nil, fmt.Errorf("code %q: it is there twice", r.Code)
		}
		seen[r.Code] = true
		r.Final = r.Final || !*r.Retryable && r.Status < 500
	}
	return rows, nil
}

var word = regexp.MustCompile(`^[A-Z]+(_[A-Z]+)*$`)

func (r Row) check() error {
	switch {
	case !word.MatchString(r.Code):
		return errors.New("must be words of capital letters with _ between them")
	case r.Status < 400 || r.Status > 599:
		return fmt.Errorf("its status is %d", r.Status)
	case r.Retryable == nil:
		return errors.New("it does not say whether it is retryable")
	case *r.Retryable && r.Final:
		return errors.New("it cannot be both retryable and final")
	case r.Title == "" || r.Console.English == "" || r.Console.Japanese == "" || r.Text == "":
		return errors.New("its title, its text or one of the console's is missing")
	case strings.ContainsAny(r.Title+r.Console.English+r.Console.Japanese, "\"'\\\n"):
		// they are literals in programs
		return errors.New("its title or one of the console's texts has a quotation mark, a backslash or a line end")
	default:
		return nil
	}
}

// name is the constant of the code in Go.
func (r Row) name() string {
	var b strings.Builder
	b.WriteString("Code")
	for w := range strings.SplitSeq(r.Code, "_") {
		switch w {
		case "ID":
			b.WriteString("ID")
		case "IDS":
			b.WriteString("IDs")
		default:
			b.WriteString(w[:1] + strings.ToLower(w[1:]))
		}
	}
	return b.String()
}

// Files returns the content of each file, by its path below the module's folder, where those stand of which parts are
// kept.
func Files(folder string) (map[string][]byte, error) {
	table, err := os.ReadFile(filepath.Join(folder, "contracts", "codes.yaml"))
	if err != nil {
		return nil, err
	}
	rows, err := Rows(table)
	if err != nil {
		return nil, fmt.Errorf("codes.yaml: %w", err)
	}
	source, err := inGo(rows)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"contracts/codes.gen.go": source}
	for _, p := range []struct {
		// what is made stands after the text begin and before the line that the expression end matches
		path, begin, end string
		made             string
	}{
		{
			"contracts/openapi.yaml", "description: What happened, for programs.\n      enum:\n", `(?m)^    \S`,
			each(rows, "        - %s\n", func(r Row) []any { return []any{r.Code} }) + "      x-enum-varnames:\n" +
				each(rows, "        - %s\n", func(r Row) []any { return []any{r.name()} }),
		},
		{"docs/reference/errors.md", "<!-- What follows is made from contracts/codes.yaml: make generate -->\n", `\z`,
			each(rows, "%s", Row.section)},
		{
			"console/src/en.js", "  // The codes; made from contracts/codes.yaml: make generate\n", `(?m)^}`,
			each(rows, "  'code.%s': '%s',\n", func(r Row) []any { return []any{r.Code, r.Console.English} }),
		},
		{
			"console/src/ja.js", "  // エラーコード。contracts/codes.yaml から生成: make generate\n", `(?m)^}`,
			each(rows, "  'code.%s': '%s',\n", func(r Row) []any { return []any{r.Code, r.Console.Japanese} }),
		},
	} {
		file, err := os.ReadFile(filepath.Join(folder, p.path))
		if err != nil {
			return nil, err
		}
		before, rest, ok := strings.Cut(string(file), p.begin)
		end := regexp.MustCompile(p.end).FindStringIndex(rest)
		if !ok || end == nil {
			return nil, fmt.Errorf("%s does not have the text %q, or not the end of what follows it", p.path, p.begin)
		}
		files[p.path] = []byte(before + p.begin + p.made + rest[end[0]:])
	}
	return files, nil
}

// each writes something of each row.
func each(rows []Row, format string, of func(Row) []any) string {
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, format, of(r)...)
	}
	return b.String()
}

func inGo(rows []Row) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("// Code generated from codes.yaml by gencodes. DO NOT EDIT.\n\npackage contracts\n\n")
	b.WriteString(
		"// codes is the one table of code, status, retryability and finality.\nvar codes = map[Code]CodeInfo{\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "%s: {Status: %d, Retryable: %t, Final: %t, Title: %q},\n", r.name(), r.Status, *r.Retryable, r.Final,
			r.Title)
	}
	b.WriteString("}\n\n// order is that of codes.yaml.\nvar order = []Code{\n")
	for _, r := range rows {
		b.WriteString(r.name() + ",\n")
	}
	b.WriteString("}\n")
	return format.Source(b.Bytes())
}

// section is the part of the page about errors.
func (r Row) section() []any {
	not := "not "
	if *r.Retryable {
		not = ""
	}
	return []any{fmt.Sprintf("\n## %s\n\n%d, %sretryable: %s.\n\n%s", r.Code, r.Status, not, r.Title, r.Text)}
}
