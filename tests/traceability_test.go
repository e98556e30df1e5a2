package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// required lists the requirements of LS-SPEC-001 (locks) and of BE-041 (the analysis gate), whose parts have no numbers
// of their own: DOD are its criteria of completion, RULE its rules of decision, CONFLICT what it says about conflicts
// and failures, TEST the tests that it asks for, each in its order. PLC are the criteria of placement, in its four
// groups, PRJ the parts of the project lock, LIM those of the limits of all processes. Each must be decided somewhere,
// tested somewhere, and have its row in docs/traceability.md.
var required = []string{
	"LS-INV-001", "LS-INV-002", "LS-INV-003", "LS-INV-004",
	"LS-ACQ-001", "LS-ACQ-002", "LS-ACQ-003", "LS-ACQ-004",
	"LS-RNW-001", "LS-RNW-002", "LS-RNW-003",
	"LS-REL-001", "LS-REL-002", "LS-REL-003",
	"LS-CC-001", "LS-EXP-001", "LS-AUTH-001", "LS-FENCE-001",
	"LS-API", // the contract's consistency: the last row of the specification's table of tests, which has no number
	"LS-ACC-01", "LS-ACC-02", "LS-ACC-03", "LS-ACC-04",

	"BE-041-DOD-1", "BE-041-DOD-2", "BE-041-DOD-3", "BE-041-DOD-4",
	"BE-041-RULE-1", "BE-041-RULE-2", "BE-041-RULE-3", "BE-041-RULE-4", "BE-041-TTL",
	"BE-041-CONFLICT-1", "BE-041-CONFLICT-2", "BE-041-CONFLICT-3", "BE-041-ENTRY", "BE-041-HEARTBEAT",
	"BE-041-TEST-1", "BE-041-TEST-2", "BE-041-TEST-3", "BE-041-TEST-4", "BE-041-TEST-5",

	"IDS-LAYOUT", "IDS-NAMESPACES", "IDS-INTERVAL", "IDS-UNIQUE", "IDS-PROTOCOL", "IDS-THROUGHPUT",
	"IDS-RENEWAL", "IDS-RELEASE", "IDS-EPOCH", "IDS-CLOCK", "IDS-STRICT", "IDS-SERVICES", "IDS-FALLBACK", "IDS-WIDTHS",
	"PLC-PLACE-1", "PLC-PLACE-2", "PLC-PLACE-3", "PLC-PLACE-4", "PLC-PLACE-5",
	"PLC-ONE-1", "PLC-ONE-2", "PLC-ONE-3", "PLC-ONE-4", "PLC-ONE-5",
	"PLC-LOCK-1", "PLC-LOCK-2", "PLC-LOCK-3", "PLC-LOCK-4", "PLC-LOCK-5",
	"PLC-LIFE-1", "PLC-LIFE-2", "PLC-LIFE-3", "PLC-LIFE-4", "PLC-LIFE-5",

	"PRJ-API", "PRJ-NAME", "PRJ-LEASE", "PRJ-ERROR", "PRJ-ACQ-1", "PRJ-ACQ-2", "PRJ-ACQ-3", "PRJ-RNW-1",
	"PRJ-RNW-2", "PRJ-RNW-3", "PRJ-REL-1", "PRJ-REL-2", "PRJ-FILE", "PRJ-EVENT-1", "PRJ-EVENT-2", "PRJ-EVENT-3",
	"PRJ-EVENT-4", "PRJ-EVENT-5", "PRJ-EVENT-6", "PRJ-SUBSCRIBE", "PRJ-WITH", "PRJ-TEST-1", "PRJ-TEST-2",
	"PRJ-TEST-3", "PRJ-TEST-4",

	"LIM-RATE-1", "LIM-RATE-2", "LIM-RATE-3", "LIM-NUMBER-1", "LIM-NUMBER-2", "LIM-NUMBER-3", "LIM-NUMBER-4",

	"IDS-EXHAUSTION", "IDS-SPREAD", "IDS-COUNTERS", "IDS-EXTERNAL", "IDS-LANGUAGES",
}

// unnamed is what the parts of the requirement begin with that has no names of its own: its places need not mention
// them.
const unnamed = "IDS-"

// row is a line of docs/traceability.md: | ID | what | file: name | file: name |, where several places are
// parted by <br>.
var row = regexp.MustCompile(
	`(?m)^\| ((?:LS|BE-041|IDS|PLC|PRJ|LIM)-[A-Z]+(?:-[0-9]+)?) \| [^|]+ \| ([^|]+) \| ([^|]+) \|$`)

// place is "`path/to/file.go`: `Name`" or "`path/to/file.go`: `Type.Method`". Files in TypeScript have theirs in the
// same form, private ones as `Class.#method`; a test in one of them is named by its title, up to ": ${" where each case
// has its own.
var place = regexp.MustCompile("^`([^`]+)`: `([^`]+)`$")

// TestTraceability: every requirement has its row; what the row names exists; and the named test mentions the
// requirement. Code does not: it says the reason in words, because its readers cannot look the IDs up.
func TestTraceability(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "docs", "traceability.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		if rows[m[1]] != nil {
			t.Errorf("%s has two rows", m[1])
		}
		rows[m[1]] = m[2:]
	}
	for _, id := range required {
		r := rows[id]
		if r == nil {
			t.Errorf("%s has no row in docs/traceability.md", id)
			continue
		}
		delete(rows, id)
		for i, kind := range []string{"code", "test"} {
			for p := range strings.SplitSeq(r[i], "<br>") {
				if err := mentions(id, p, kind == "test"); err != nil {
					t.Errorf("%s, %s: %v", id, kind, err)
				}
			}
		}
	}
	for id := range rows {
		t.Errorf("%s has a row and is no requirement", id)
	}
}

// mentions reports what is wrong with a place that is said to be about a requirement.
func mentions(id, where string, test bool) error {
	m := place.FindStringSubmatch(strings.TrimSpace(where))
	if m == nil {
		return fmt.Errorf("%q is not a file and a name", where)
	}
	file, name := m[1], m[2]
	if isTest := strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, ".test.ts") ||
		strings.HasPrefix(file, "tests/") || strings.HasPrefix(file, "proof/suite/"); isTest != test {
		return fmt.Errorf("%s is in the wrong column", file)
	}
	source, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(file)))
	if err != nil {
		return err
	}
	if strings.HasSuffix(file, ".ts") {
		if !inTypeScript(string(source), name, test) {
			return fmt.Errorf("%s has no %q", file, name)
		}
		return mentioned(id, file, string(source), test)
	}
	receiver := `(\([^)]*\) )?`
	if typ, method, ok := strings.Cut(name, "."); ok {
		receiver, name = `\(\w* ?\*?`+typ+`\) `, method
	}
	if !regexp.MustCompile(`(?m)^func ` + receiver + regexp.QuoteMeta(name) + `(\[[^\]]*\])?\(`).Match(source) {
		return fmt.Errorf("%s has no function %s", file, name)
	}
	return mentioned(id, file, string(source), test)
}

// mentioned reports a file of tests that does not mention a requirement which has a name. IDs are whole: PRJ-RNW-1 is
// not in PRJ-RNW-10.
func mentioned(id, file, source string, test bool) error {
	if test && !strings.HasPrefix(id, unnamed) && !regexp.MustCompile(regexp.QuoteMeta(id)+`\b`).MatchString(source) {
		return fmt.Errorf("%s does not mention it", file)
	}
	return nil
}

// inTypeScript reports whether a source has a test of a title, or what a name says: a declaration of the file, or a
// member of a class.
func inTypeScript(source, name string, test bool) bool {
	if test {
		return strings.Contains(source, "test('"+name+"'") || strings.Contains(source, "test(`"+name+": ${")
	}
	class, member, ok := strings.Cut(name, ".")
	if !ok {
		return regexp.MustCompile(`(?m)^(export )?(async )?(function|class|const) ` + regexp.QuoteMeta(name) +
			`\b`).MatchString(source)
	}
	at := regexp.MustCompile(`(?m)^(export )?class ` + regexp.QuoteMeta(class) + `\b`).FindStringIndex(source)
	if at == nil {
		return false
	}
	body, _, _ := strings.Cut(source[at[0]:], "\n}")
	return regexp.MustCompile(`(?m)^  (readonly |async )*` + regexp.QuoteMeta(member) +
		`(<[^>]*>)?( = |\()`).MatchString(body)
}

// TestTypeScriptNames: what a row could name wrongly in TypeScript is found.
func TestTypeScriptNames(t *testing.T) {
	t.Parallel()
	const source = "export class Lock<B> {\n  readonly take = async () => 1\n  async #send<T>(o: T) {\n    renew(1)\n  }\n}\n" +
		"class Other {\n  end() {}\n}\nconst delay = 1\n  test('a lock: it is taken', () => 1)\n  test(`of all: ${name}`, () => 1)\n"
	for _, c := range []struct {
		name       string
		test, want bool
	}{
		{"Lock", false, true},
		{"Lock.take", false, true},
		{"Lock.#send", false, true},
		{"Lock.send", false, false},
		{"Lock.renew", false, false}, // it is called there
		{"Lock.end", false, false},   // of another class
		{"Loc", false, false},
		{"delay", false, true},
		{"take", false, false},
		{"a lock: it is taken", true, true},
		{"a lock", true, false},
		{"of all", true, true},
		{"delay", true, false},
	} {
		if got := inTypeScript(source, c.name, c.test); got != c.want {
			t.Errorf("%q, as a test %v: %v, want %v", c.name, c.test, got, c.want)
		}
	}
}

// TestNoUnknownRequirements: an ID in the source that is in no requirement is a misprint.
func TestNoUnknownRequirements(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, id := range required {
		known[id] = true
	}
	id := regexp.MustCompile(`LS-[A-Z]+-[0-9]+|BE-041-[A-Z]+(-[0-9]+)?`)
	for _, path := range tracked(t, "*.go", "*.md") {
		source, err := os.ReadFile(filepath.Join("..", path))
		if os.IsNotExist(err) {
			continue // deleted and not committed
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range id.FindAllString(string(source), -1) {
			if !known[found] && found != "LS-SPEC-001" {
				t.Errorf("%s mentions %s, which is no requirement", path, found)
			}
		}
	}
}

// TestRequirementIDsStandInTestsOnly: readers of the code cannot look them up; docs/traceability.md connects
// the two.
func TestRequirementIDsStandInTestsOnly(t *testing.T) {
	t.Parallel()
	id := regexp.MustCompile(`\b(LS-[A-Z]+-[0-9]+|BE-041-[A-Z]+|(IDS|PLC|PRJ)-[A-Z]+)\b`)
	sources(t, func(path string, line int, text string) {
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.HasPrefix(path, "proof/suite/") {
			return
		}
		if found := id.FindString(text); found != "" {
			t.Errorf("%s:%d: %s: say the reason in words", path, line, found)
		}
	})
}
