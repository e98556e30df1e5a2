package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestListsAreCurrent: each entry of the lists replaces a text that is in its file once, and what is made of it can be
// parsed. A change that makes one stale says so here, and not days later in a run of all of them.
func TestListsAreCurrent(t *testing.T) {
	t.Parallel()
	faults, err := readLists("faults")
	if err != nil {
		t.Fatal(err)
	}
	src := &sources{root: "../.."}
	if err := stale(src, faults); err != nil {
		t.Error(err)
	}
	o, err := newOverlay(src, faults)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.write(t.TempDir()); err != nil {
		t.Error(err)
	}
	if _, err := readAccepted(src, "proof/mutants/equivalent.txt"); err != nil {
		t.Error(err)
	}
	languages, orders := map[string]int{}, 0
	for _, f := range faults {
		if f.check.pkg == "./proof/prove" && f.check.tests == "^TestEvery$" {
			orders++
		}
		languages[path.Ext(f.file)]++
		if f.check.switched() {
			if files, err := filepath.Glob(filepath.Join(src.root, f.check.pkg, "*.go")); err != nil || len(files) == 0 {
				t.Errorf("%s: %s is no package: %v", f.where(), f.check.pkg, err)
			}
		}
	}
	for _, ext := range []string{".go", ".lua", ".ts", ".py"} {
		if languages[ext] == 0 {
			t.Errorf("no fault in a file %s", ext)
		}
	}
	if orders < 20 {
		t.Errorf("%d faults for the search through all orders; want 20 at least", orders)
	}
	if len(faults) < 150 {
		t.Errorf("%d faults; want 150 at least: %v", len(faults), languages)
	}
}

// write writes files into a folder.
func write(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// module is a small module with tests.
var module = map[string]string{
	"go.mod": "module example.com/m\n\ngo 1.26\n",
	"a/a.go": `package a

import _ "embed"

//go:embed a.lua
var script string

const most = 3

var names = []string{"a", "b"}

// Admit has a label and a switch.
func Admit(n int) (ok bool) {
	defer func() { _ = recover() }()
outer:
	for {
		switch {
		case n > most:
			break outer
		default:
			return true
		}
	}
	return false
}

// First is not tested.
func First() string { return names[0] }

// Script is the embedded text.
func Script() string { return script }

// Wait ends.
func Wait(n int) {
	for n > 0 {
		n--
	}
}
`,
	"a/a.lua": "return 1\n",
	"a/a_test.go": `package a

import "testing"

func TestAdmit(t *testing.T) {
	if !Admit(most) || Admit(4) {
		t.Error("wrong")
	}
}

func TestScript(t *testing.T) {
	if Script() != "return 1\n" {
		t.Error(Script())
	}
}

func TestWait(t *testing.T) { Wait(2) }
`,
	"b/b_test.go": `package b

import (
	"testing"

	"example.com/m/a"
)

func TestAdmits(t *testing.T) {
	if !a.Admit(0) {
		t.Error("wrong")
	}
}
`,
	"c/client.txt":   "one\ntwo\n",
	"c/link.txt":     "beside\n",
	"lists/sh.txt":   "folder c\nprepare mkdir -p $BUILT && echo made >$BUILT/it\nbuild grep -q two client.txt\ntest grep -q one client.txt && test -f $BUILT/it && test -f ../go.mod\nfile client.txt\n\n= one\n- one\n+ uno\n",
	"lists/list.txt": "",
}

// run runs the program in the module, and returns its results by name, and its exit code.
func run(t *testing.T, list string, args ...string) (map[string]result, int, string) {
	t.Helper()
	root := t.TempDir()
	write(t, root, module)
	write(t, root, map[string]string{"lists/list.txt": list})
	return runIn(t, root, args...)
}

// runIn is run in a module that is there.
func runIn(t *testing.T, root string, args ...string) (map[string]result, int, string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := command(t.Context(), append([]string{"-root", root, "-lists", "lists", "-json"}, args...), &stdout, &stderr)
	var out struct{ Results []result }
	if err := json.Unmarshal(stdout.Bytes(), &out); err != nil && code != 2 {
		t.Fatalf("%v\n%s\n%s", err, stdout.Bytes(), stderr.Bytes())
	}
	results := map[string]result{}
	for _, r := range out.Results {
		results[r.Name] = r
	}
	return results, code, stderr.String()
}

// TestFaults: one run of each kind of fault: in a function with labels, in a constant, in a variable, in an embedded
// text, noticed by the tests of another package, in a copy of a folder; one that no test notices.
func TestFaults(t *testing.T) {
	t.Parallel()
	results, code, said := run(t, `test ./a
file a/a.go

= bound
- n > most
+ n >= most

= constant
- = 3
+ = 4

# Indentation does not matter; the text is that behind a line which occurs once.
= several-lines
after switch {
- break outer
- default:
+ n = 0
+ continue outer
+ default:

= elsewhere
test ./b ^TestAdmits$
- return true
+ return false

= variable
- {"a", "b"}
+ {"b"}

= embedded
file a/a.lua
- 1
+ 2
`)
	want := map[string]string{
		"list/bound": "noticed by TestAdmit", "list/constant": "noticed by TestAdmit",
		"list/several-lines": "noticed by TestAdmit",
		"list/elsewhere":     "noticed by TestAdmits", "list/variable": "survived by ",
		"list/embedded": "noticed by TestScript",
		"sh/one":        "noticed by ",
	}
	for name, w := range want {
		if r := results[name]; r.Status+" by "+r.By != w {
			t.Errorf("%s: %+v, want %s", name, r, w)
		}
	}
	if len(results) != len(want) || code != 1 {
		t.Errorf("%d results, exit code %d, want %d and 1\n%s", len(results), code, len(want), said)
	}
}

// TestHang: a test that does not end has noticed the fault. It is ended with the processes that it started, also those
// that left its group.
func TestHang(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, module)
	write(t, root, map[string]string{
		"lists/list.txt": "test ./d ^TestChild$\nfile a/a.go\n\n= endless\n- n--\n",
		"d/d_test.go": `package d

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"example.com/m/a"
)

func TestBefore(t *testing.T) {}

func TestChild(t *testing.T) {
	c := exec.Command("sleep", "600")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	os.WriteFile("child", []byte(strconv.Itoa(c.Process.Pid)), 0o600)
	a.Wait(2)
	c.Process.Kill()
	c.Wait()
}
`,
	})
	results, code, said := runIn(t, root, "-limit", "1s", "-run", "list/")
	if r := results["list/endless"]; r.Status != hung || r.By != "TestChild" || code != 0 {
		t.Errorf("%+v, exit code %d\n%s", r, code, said)
	}
	child, err := os.ReadFile(filepath.Join(root, "d", "child"))
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { // one that was killed ends soon after, which is told to its parent alone
		environ, _ := os.ReadFile(filepath.Join("/proc", string(child), "environ"))
		if !strings.Contains(string(environ), variable+"=") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the process %s, which the test started, goes on", child)
		}
	}
}

// TestLimits: a run with a fault may take three times what it takes without, and be silent for three times as long.
func TestLimits(t *testing.T) {
	t.Parallel()
	r := &runner{limit: 5 * time.Second}
	if got, want := r.with(outcome{seconds: 20, silence: 2}), (limits{65 * time.Second, 11 * time.Second}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
	s := &spoken{last: time.Now().Add(-time.Hour)}
	if !s.silent(t.Context(), time.Minute) {
		t.Error("it is not silent after an hour")
	}
	_, _ = s.Write([]byte("x"))
	if s.longest < time.Hour || time.Since(s.last) > time.Minute {
		t.Errorf("silent for %v, and last heard at %v", s.longest, s.last)
	}
}

// TestProgram: a fault in a program is noticed by a test that builds and starts it, without Leasehold's own variables.
func TestProgram(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, module)
	write(t, root, map[string]string{
		"lists/list.txt": "test ./e ^TestProgram$\nfile p/main.go\n\n= exit\n- os.Exit(0)\n+ os.Exit(3)\n",
		"p/main.go":      "package main\n\nimport \"os\"\n\nfunc main() { os.Exit(0) }\n",
		"e/e_test.go": `package e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestProgram(t *testing.T) {
	p := filepath.Join(t.TempDir(), "p.exe")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", p, "example.com/m/p").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := exec.Command(p)
	c.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "LEASEHOLD_") })
	if err := c.Run(); err != nil {
		if err.Error() != "exit status 3" {
			t.Skip(err)
		}
		t.Error(err)
	}
}
`,
	})
	results, code, said := runIn(t, root, "-run", "list/")
	if r := results["list/exit"]; r.Status != noticed || r.By != "TestProgram" || code != 0 {
		t.Errorf("%+v, exit code %d\n%s", r, code, said)
	}
	if _, err := os.Stat(filepath.Join(root, "p.exe")); err == nil {
		t.Error("a program was left behind")
	}
}

// TestBudget: what the time is not enough for is counted, and is no failure.
func TestBudget(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, module)
	write(t, root, map[string]string{"lists/list.txt": "test ./a\nfile a/a.go\n\n= bound\n- n > most\n+ n >= most\n"})
	var stdout, stderr bytes.Buffer
	code := command(t.Context(), []string{"-root", root, "-lists", "lists", "-budget", "1ns"}, &stdout, &stderr)
	if code != 0 || !strings.Contains(stdout.String(), "the budget was spent before 2 of them were tried") {
		t.Errorf("%d\n%s\n%s", code, stdout.Bytes(), stderr.Bytes())
	}
}

// TestSome: some faults are those of as few packages as have so many, and another seed draws others.
func TestSome(t *testing.T) {
	t.Parallel()
	var all []*fault
	for i := range 50 {
		all = append(all, &fault{name: strconv.Itoa(i), check: check{pkg: fmt.Sprint("./p", i%5)}})
	}
	names := func(seed uint64) (list []string, packages map[string]bool) {
		packages = map[string]bool{}
		for _, f := range some(all, 12, seed) {
			list, packages[f.check.pkg] = append(list, f.name), true
		}
		return slices.Sorted(slices.Values(list)), packages
	}
	first, packages := names(1)
	if again, _ := names(1); len(slices.Compact(slices.Clone(first))) != 12 || len(packages) != 2 || !slices.Equal(first, again) {
		t.Errorf("%v of %v, and %v", first, packages, again)
	}
	if other, _ := names(2); slices.Equal(first, other) {
		t.Errorf("two seeds draw %v", other)
	}
}

// TestNotTried: what cannot be tried is no success.
func TestNotTried(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ list, want string }{
		"a test that does not exist": {"test ./a ^TestNone$\nfile a/a.go\n= x\n- n--\n+ n++", "there is no such test"},
		"does not compile":           {"test ./a\nfile a/a.go\n= x\n- n--\n+ m--", "list/x.go:36"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results, code, said := run(t, c.list, "-run", "list/")
			if r := results["list/x"]; r.Status != broken || !strings.Contains(r.Why, c.want) || code != 1 {
				t.Errorf("%+v, exit code %d, want %q\n%s", r, code, c.want, said)
			}
		})
	}
}

// TestRefused: a wrong list is refused before anything is built, and the message says what and where.
func TestRefused(t *testing.T) {
	t.Parallel()
	const head = "test ./a\nfile a/a.go\n= x\n"
	for name, c := range map[string]struct{ list, want string }{
		"gone":              {head + "- gone\n+ here", `list.txt:3: list/x: stale: a/a.go does not have the text "gone"`},
		"twice":             {head + "- return\n+ panic(1)", "more than once"},
		"behind what":       {head + "after nothing\n- n--", `"nothing", after which it stands, occurs 0 times`},
		"no change":         {head + "- n--\n+ n--", "it changes nothing"},
		"no file":           {"test ./a\nfile a/b.go\n= x\n- x", "there is no a/b.go"},
		"no test":           {"file a/a.go\n= x\n- x", "no test"},
		"no text":           {head, "no line begins with -"},
		"a name twice":      {head + "- n--\n\n= x\n- n--", "the name is taken"},
		"a word":            {head + "texts\n- n--", `"texts": a line begins with`},
		"not in a function": {head + "- package a\n+ package b", "not in the body of a function"},
		"no syntax":         {head + "- n--\n+ n -", "expected operand"},
		"outside an entry":  {"- x\n", "belongs to an entry"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, code, said := run(t, c.list); code != 2 || !strings.Contains(said, c.want) {
				t.Errorf("exit code %d, want %q:\n%s", code, c.want, said)
			}
		})
	}
}

// TestNarrow: the test that noticed a fault is written into its entry.
func TestNarrow(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, module)
	write(t, root, map[string]string{"lists/list.txt": "test ./a\nfile a/a.go\n\n= bound\n- n > most\n+ n >= most\n"})
	var stdout, stderr bytes.Buffer
	if code := command(t.Context(), []string{"-root", root, "-lists", "lists", "-narrow"}, &stdout, &stderr); code != 0 {
		t.Fatalf("%d\n%s\n%s", code, stdout.Bytes(), stderr.Bytes())
	}
	got, err := os.ReadFile(filepath.Join(root, "lists", "list.txt"))
	if want := "test ./a\nfile a/a.go\n\n= bound\ntest ./a ^TestAdmit$\n- n > most\n+ n >= most\n"; err != nil ||
		string(got) != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}
