// Command mutants makes sure that the tests notice mistakes. Lists in the folder faults name mistakes that a programmer
// could make: a bound that is off by one, a condition that is missing, an error that is lost. The tests run once with
// each of them and must fail. It also draws mistakes by itself, so that the tests are asked what no one thought of.
//
//	go run ./proof/mutants                          all faults of the lists: make mutants
//	go run ./proof/mutants -run '^lock/'            those whose names match
//	go run ./proof/mutants -random 100 -seed 7      a hundred that it draws
//	go run ./proof/mutants -changed main -budget 2m those in files that differ from main, for two minutes
//	go run ./proof/mutants -help
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

const help = `Usage: go run ./proof/mutants [flags]

Runs tests once with each fault of the lists in proof/mutants/faults. Each fault must be noticed: a test fails, or does not end.
Go packages are built once with all faults, each behind a switch that the environment variable ` + variable + ` turns on, so that a fault
costs a run of its tests and no build. Programs that tests build with go build have the faults, too: GOFLAGS names them, and the variable
reaches the programs. Faults in clients of other languages are tested in a copy of the client's folder.

Every group of tests runs without a fault first, and must pass. A run with a fault may take three times as long, and write nothing for
three times as long as that did, and -limit beside: then it is ended with all that it started, and the fault has been noticed.

A list is a text file:

  # Comments and empty lines help readers. These lines hold for all entries that follow, or in an entry for itself:
  file repo/lock/rule.go
  test ./repo/lock TestRenew|TestRelease     a package, and the tests that must notice, as go test -run has them

  = renews-after-the-end                     its name here; it is called lock/renews-after-the-end if the list is lock.txt
  after func (r Renew) Write(                the text stands behind this, which occurs once in the file; without it, the text occurs once
  - return expired                           the text that is replaced; how its lines are broken does not matter
  + return false                             what it becomes; nothing if no line begins with +

The text is a part of a function's body, the value of one constant or variable of a package, or of a file that is embedded as a string.
Clients of other languages have folder, prepare, build and test lines: see typescript.txt.

Write a fault that a programmer could make, and that changes what users see: one that changes nothing does not belong here. If no test
notices it, write the test. If the tool says that an entry is stale, find the same rule in the new text, or remove the entry with the rule.

With -random the tool draws faults itself, in bodies of functions of Go: a comparison or a number that is off by one, == and !=, && and ||,
+ and -, min and max exchanged, a condition that is negated or never true, a ! or a defer that is missing, a statement that is removed, an
error or a value that is not returned, arguments that change places. What does not compile is drawn again. The same seed draws the same
faults of the same sources. Each is tried with the tests of its own package; with -importers also with those of the packages that import
it and of ` + programs + `, one after the other, until one notices it. For each that survives, the output has its place, what it changes, and
the command that tries it alone. Write the test; or, if no caller can see the fault, write its name and why into
proof/mutants/equivalent.txt: then it is not drawn again.

Exit codes: 0 no fault that was tried survived, 1 one survived or could not be tried, 2 the flags or lists are wrong.

Flags:
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// command is the program: its exit code is returned.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		_, _ = io.WriteString(stderr, help)
		flags.PrintDefaults()
	}
	var (
		root     = flags.String("root", ".", "the `folder` of the module")
		lists    = flags.String("lists", "proof/mutants/faults", "the `folder` of the lists, from the root")
		only     = flags.String("run", "", "try only faults whose names match the `pattern`")
		share    = flags.String("part", "1/1", "try only one `part` of the faults, such as 3/7: all of them in seven runs")
		parallel = flags.Int("parallel", max(1, runtime.NumCPU()/2), "how many runs there are at a time")
		limit    = flags.Duration("limit", 5*time.Second,
			"how long a run with a fault may take, and write nothing, beside three times what it does without")
		random    = flags.Int("random", 0, "draw so many faults, in place of the lists; with -changed, beside them")
		seed      = flags.Uint64("seed", 1, "the seed of the drawn faults")
		pkgs      = flags.String("package", "", "try only faults in these packages: `patterns` of go list, with commas between")
		importers = flags.Bool("importers", false, "try drawn faults that survive with tests of other packages, too")
		changed   = flags.String("changed", "", "try only faults in files that differ from this `commit`")
		most      = flags.Int("most", 0, "try so many faults at most: those of some packages, which -seed draws (default: all)")
		budget    = flags.Duration("budget", 0, "begin no run after this time; what was not tried is counted (default: no end)")
		asJSON    = flags.Bool("json", false, "print one JSON object: results, and how many there are of each status")
		show      = flags.Bool("list", false, "print the names of the faults and what must notice them, and run nothing")
		narrow    = flags.Bool("narrow", false,
			"write the test that noticed a fault into its entry, if it names no tests: the next run is faster")
	)
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	fail := func(err error) int {
		_, _ = fmt.Fprintf(stderr, "mutants: %v\n", err)
		return 2
	}
	pattern, err := regexp.Compile(*only)
	var part, parts int
	if _, wrong := fmt.Sscanf(*share, "%d/%d", &part, &parts); err == nil && (wrong != nil || part < 1 || part > parts) {
		err = fmt.Errorf("-part %s is no part: 3/7 is the third of seven", *share)
	}
	switch {
	case err != nil:
		return fail(err)
	case flags.NArg() > 0:
		return fail(fmt.Errorf("%q is no flag: to try some faults only, use -run", flags.Arg(0)))
	case *parallel < 1 || *random < 0 || *budget < 0 || *most < 0:
		return fail(errors.New("-parallel is 1 or more, -random, -budget and -most are not negative"))
	}
	if *root, err = filepath.Abs(*root); err != nil {
		return fail(err)
	}
	begin := time.Now()
	work, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	var results []result
	src := &sources{root: *root}
	r := &runner{
		src: src, work: work, limit: *limit, parallel: *parallel,
		log: func(format string, args ...any) { _, _ = fmt.Fprintf(stderr, "# "+format+"\n", args...) },
		report: func(res result) {
			if n := len(results); n > 0 && res.Why == results[n-1].Why && res.Status == broken && !*asJSON {
				// said already
				_, _ = fmt.Fprintln(stdout, result{Name: res.Name, Status: res.Status, By: res.By, Seconds: res.Seconds})
			} else if !*asJSON {
				_, _ = fmt.Fprintln(stdout, res)
			}
			results = append(results, res)
		},
	}
	if *budget > 0 {
		r.until = begin.Add(*budget)
	}
	faults, err := chosen(ctx, r, choice{
		lists: *lists, listed: *random == 0 || *changed != "", random: *random, seed: *seed, wider: *importers,
		pattern: pattern, changed: *changed,
		packages: strings.FieldsFunc(*pkgs, func(c rune) bool { return c == ',' || c == ' ' }),
	})
	faults = slices.DeleteFunc(faults, func(f *fault) bool {
		h := fnv.New32a()
		_, _ = io.WriteString(h, f.name)
		return h.Sum32()%uint32(parts) != uint32(part-1)
	})
	if n := len(faults); *most > 0 && n > *most {
		faults = some(faults, *most, *seed)
		if !*asJSON {
			_, _ = fmt.Fprintf(stdout, "%d of %d faults are tried, of some packages\n", len(faults), n)
		}
	}
	switch {
	case err != nil:
		return fail(err)
	case len(faults) == 0 && *changed != "":
		r.log("no fault is in a file that differs from %s", *changed)
	case len(faults) == 0:
		return fail(fmt.Errorf("no fault has a name that matches %q", *only))
	}
	if *show {
		for _, f := range faults {
			_, _ = fmt.Fprintf(stdout, "%-60s %s\n", f.name, f.check)
		}
		return 0
	}

	if err := r.runWider(ctx, faults); err != nil {
		return fail(err)
	}
	if *narrow {
		if err := narrowLists(results); err != nil {
			return fail(err)
		}
	}
	return summary(results, time.Since(begin), *asJSON, stdout)
}

// some are so many of the faults, of as few packages as have them: each has to be built.
func some(faults []*fault, most int, seed uint64) []*fault {
	of := map[string][]*fault{}
	for _, f := range faults {
		where := f.check.pkg + f.check.folder
		of[where] = append(of[where], f)
	}
	chance := rand.New(rand.NewPCG(seed, 0))
	packages := slices.Sorted(maps.Keys(of))
	chance.Shuffle(len(packages), func(i, j int) { packages[i], packages[j] = packages[j], packages[i] })
	var drawn []*fault
	for _, p := range packages {
		chance.Shuffle(len(of[p]), func(i, j int) { of[p][i], of[p][j] = of[p][j], of[p][i] })
		drawn = append(drawn, of[p][:min(len(of[p]), most-len(drawn))]...)
	}
	return drawn
}

// choice is which faults the flags ask for.
type choice struct {
	lists    string
	listed   bool // those of the lists
	random   int  // how many are drawn
	seed     uint64
	pattern  *regexp.Regexp // of names
	packages []string
	changed  string // a commit
	wider    bool   // drawn ones that survive are tried with tests of other packages
}

// chosen are the faults to try: of the lists, and drawn ones.
func chosen(ctx context.Context, r *runner, c choice) ([]*fault, error) {
	src := r.src
	faults, err := readLists(filepath.Join(src.root, filepath.FromSlash(c.lists)))
	if err != nil {
		return nil, err
	}
	if err := stale(src, faults); err != nil {
		return nil, err
	}
	var named *packages
	wanted := func(f *fault) bool { return c.pattern.MatchString(f.name) }
	if c.changed != "" {
		files, err := changedFiles(ctx, src.root, c.changed)
		if err != nil {
			return nil, err
		}
		before := wanted
		wanted = func(f *fault) bool { return before(f) && files[f.file] }
	}
	if len(c.packages) > 0 {
		if named, err = goList(ctx, src.root, c.packages...); err != nil {
			return nil, err
		}
		folders := map[string]bool{}
		for _, p := range named.all {
			folders[named.folder(p)] = true
		}
		before := wanted
		wanted = func(f *fault) bool { return before(f) && folders[path.Dir(f.file)] }
	}
	unwanted := func(f *fault) bool { return !wanted(f) }
	faults = slices.DeleteFunc(faults, func(f *fault) bool { return !c.listed || unwanted(f) })
	if c.random == 0 {
		return faults, nil
	}
	accepted, err := readAccepted(src, path.Join(path.Dir(c.lists), "equivalent.txt"))
	if err != nil {
		return nil, err
	}
	all, err := goList(ctx, src.root, "./...")
	if err != nil {
		return nil, err
	}
	from := all
	if named != nil {
		from = named
	}
	can, err := drawable(src, all, from, named != nil, c.wider, accepted)
	if err != nil {
		return nil, err
	}
	can = slices.DeleteFunc(can, unwanted)
	drawn, err := r.draw(ctx, can, c.random, c.seed)
	r.log("drew %d of %d faults that can be made, with the seed %d", len(drawn), len(can), c.seed)
	return append(faults, drawn...), err
}

func (r result) String() string {
	line := fmt.Sprintf("%-9s %6.1f s  %s", r.Status, r.Seconds, r.Name)
	if r.By != "" {
		line += "  by " + r.By
	}
	if r.Within != "" {
		line += "  in " + r.Within
	}
	var more strings.Builder
	for _, text := range []string{r.Where, r.Diff, r.Command, r.Why} {
		if text != "" {
			more.WriteString("\n  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  "))
		}
	}
	line += more.String()
	return line
}

// summary prints how many faults there are of each status, and returns the exit code.
func summary(results []result, took time.Duration, asJSON bool, stdout io.Writer) int {
	counts := map[string]int{}
	for _, r := range results {
		counts[r.Status]++
	}
	code := 0
	if counts[survived]+counts[broken] > 0 {
		code = 1
	}
	if asJSON {
		slices.SortFunc(results, func(a, b result) int { return strings.Compare(a.Name, b.Name) })
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		if e.Encode(map[string]any{"results": results, "counts": counts, "seconds": took.Seconds()}) != nil {
			return 1
		}
		return code
	}
	_, _ = fmt.Fprintf(stdout,
		"\n%d faults in %.0f s: %d noticed, %d more because a test did not end, %d survived, %d could not be tried\n",
		len(results), took.Seconds(), counts[noticed], counts[hung], counts[survived], counts[broken])
	if n := counts[untried]; n > 0 {
		_, _ = fmt.Fprintf(stdout, "the budget was spent before %d of them were tried\n", n)
	}
	for _, r := range results {
		if r.Status == survived || r.Status == broken {
			_, _ = fmt.Fprintf(stdout, "%-9s %s\n", r.Status, r.fault.where())
		}
	}
	return code
}

// narrowLists adds the tests that noticed faults to entries that name none.
func narrowLists(results []result) error {
	found := map[string]map[int]string{} // by list and line
	for _, r := range results {
		c := r.fault.check
		test, _, _ := strings.Cut(r.By, "/")
		if r.Status != noticed || r.fault.drawn || !c.switched() || c.tests != "" || !strings.HasPrefix(test, "Test") {
			continue
		}
		if found[r.fault.list] == nil {
			found[r.fault.list] = map[int]string{}
		}
		found[r.fault.list][r.fault.line] = fmt.Sprintf("test %s ^%s$\n", c.pkg, test)
	}
	for list, tests := range found {
		text, err := os.ReadFile(list)
		if err != nil {
			return err
		}
		var out strings.Builder
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			out.WriteString(line)
			out.WriteString(tests[n])
		}
		if err := os.WriteFile(list, []byte(out.String()), 0o600); err != nil {
			return err
		}
	}
	return nil
}
