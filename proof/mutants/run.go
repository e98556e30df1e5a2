package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// What became of a fault.
const (
	noticed  = "noticed"
	hung     = "hung"      // a test did not end: noticed as well
	survived = "survived"  // no test failed
	broken   = "broken"    // it could not be tried
	untried  = "not tried" // the budget of time was spent
)

// result is what became of a fault.
type result struct {
	Name    string  `json:"name"`
	Status  string  `json:"status"`
	By      string  `json:"by,omitempty"`     // the test that failed
	Within  string  `json:"within,omitempty"` // what ran its tests last, if it was drawn
	Seconds float64 `json:"seconds"`
	Why     string  `json:"why,omitempty"` // it could not be tried

	// Of one that survived.
	Where   string `json:"where,omitempty"`   // file:line
	Diff    string `json:"diff,omitempty"`    // what it changes
	Command string `json:"command,omitempty"` // tries it alone

	fault *fault
}

// runner tries faults.
type runner struct {
	src      *sources
	work     string        // a folder that is removed at the end
	limit    time.Duration // of a run with a fault, and of its silence, beside three times what its tests take without
	until    time.Time     // no run begins after it, unless it is zero
	parallel int
	log      func(format string, args ...any)
	report   func(result) // is called one at a time

	goflags  string // of the tests: a go build in them has the faults, too
	overlays int    // how many were written

	mu  sync.Mutex
	wg  sync.WaitGroup
	sem chan struct{}
}

// spent reports whether the budget of time is.
func (r *runner) spent() bool { return !r.until.IsZero() && time.Now().After(r.until) }

// run tries the faults. What fails without any fault is reported with each fault that it concerns.
func (r *runner) run(ctx context.Context, faults []*fault) error {
	replace, faults, err := r.compiling(ctx, faults, r.report)
	if err != nil {
		return err
	}
	had, err := goCommand(ctx, r.src.root, "env", "GOFLAGS")
	if err != nil {
		return err
	}
	r.goflags = "GOFLAGS=" + strings.TrimSpace(strings.TrimSpace(had)+" '-overlay="+replace+"'")
	groups := map[check][]*fault{}
	var checks []check                              // in the order of the lists, those of a package together
	of, count := map[string]int{}, map[string]int{} // of a package: how many checks, how many faults
	for _, f := range faults {
		count[f.check.pkg]++
		if groups[f.check] == nil {
			checks = append(checks, f.check)
			of[f.check.pkg]++
		}
		groups[f.check] = append(groups[f.check], f)
	}
	if !r.until.IsZero() { // a test binary is built for many faults first
		slices.SortStableFunc(checks, func(a, b check) int { return cmp.Compare(count[b.pkg], count[a.pkg]) })
	}
	r.sem = make(chan struct{}, r.parallel)
	binaries, prepared := map[string]binary{}, map[string]error{}
	for _, c := range checks {
		var try attempt
		var err error
		switch {
		case r.spent():
		case c.switched():
			b, ok := binaries[c.pkg]
			if !ok {
				r.log("building %s: %d groups of tests", c.pkg, of[c.pkg])
				b = r.compile(ctx, c.pkg, len(binaries))
				binaries[c.pkg] = b
			}
			try, err = r.switched(b, c), b.err
		default:
			if _, ok := prepared[c.prepare]; !ok {
				prepared[c.prepare] = r.prepare(ctx, c.prepare)
			}
			try, err = r.copied(c), prepared[c.prepare]
		}
		r.wg.Go(func() { r.group(ctx, c, groups[c], try, err) })
	}
	r.wg.Wait()
	return ctx.Err()
}

// runWider tries the faults, and those that survive with the tests of one more package after the other.
func (r *runner) runWider(ctx context.Context, faults []*fault) error {
	report := r.report
	defer func() { r.report = report }()
	before := map[string]result{} // what survived
	for len(faults) > 0 {
		var next []*fault
		r.report = func(res result) {
			f := res.fault
			if was, ok := before[f.name]; ok && (res.Status == broken || res.Status == untried) {
				was.Why = strings.TrimSpace(fmt.Sprintf("with %s %s %s", f.check.pkg, res.Status, res.Why))
				res = was
			}
			if res.Status == survived && len(f.judges) > 0 && !r.spent() {
				before[f.name] = res
				wider := *f
				wider.check.pkg, wider.judges = f.judges[0], f.judges[1:]
				next = append(next, &wider)
				return
			}
			report(res)
		}
		if err := r.run(ctx, faults); err != nil {
			return err
		}
		faults = next
	}
	return nil
}

// compiling writes the overlay of the faults that compile, and reports the others: one of them must not keep the rest
// from being tried.
func (r *runner) compiling(ctx context.Context, faults []*fault, report func(result)) (replace string, rest []*fault,
	err error,
) {
	for rest = faults; ; {
		o, err := newOverlay(r.src, rest)
		if err != nil {
			return "", nil, err
		}
		r.overlays++
		folder := filepath.Join(r.work, "overlay"+strconv.Itoa(r.overlays))
		if err := os.Mkdir(folder, 0o700); err != nil {
			return "", nil, err
		}
		if replace, err = o.write(folder); err != nil || len(o.inits) == 0 {
			return replace, rest, err
		}
		r.log("compiling %d packages with their faults", len(o.inits))
		args := []string{"build", "-o", os.DevNull, "-overlay", replace}
		if _, failed := r.goBuild(ctx, args, o.inits); failed == nil { // what it compiled is that of the tests
			return replace, rest, nil
		}
		args = slices.Insert(args, 1, "-gcflags=-e") // all that does not compile
		out, failed := r.goBuild(ctx, args, o.inits)
		if failed == nil {
			return replace, rest, nil
		}
		said := map[string][]string{} // by fault: //line gives each the name of a file of its own
		for line := range strings.Lines(string(out)) {
			if name, _, ok := strings.Cut(line, ".go:"); ok {
				said[name] = append(said[name], line)
			}
		}
		before := len(rest)
		rest = slices.DeleteFunc(slices.Clone(rest), func(f *fault) bool {
			if said[f.name] != nil {
				report(result{Name: f.name, Status: broken, Why: "it does not compile:\n" + strings.Join(said[f.name], ""),
					fault: f})
			}
			return said[f.name] != nil
		})
		if len(rest) == before {
			return "", nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), failed, out)
		}
	}
}

// goBuild builds the packages of some folders.
func (r *runner) goBuild(ctx context.Context, args []string, folders map[string][]string) ([]byte, error) {
	args = slices.Clone(args)
	for _, dir := range sorted(folders) {
		args = append(args, "./"+dir)
	}
	build := exec.CommandContext(ctx, "go", args...)
	build.Dir = r.src.root
	return build.CombinedOutput()
}

// outcome is how a run ended.
type outcome struct {
	failed, hung bool
	by           string
	text         string
	seconds      float64
	silence      float64 // the longest that it wrote nothing, in seconds
	err          error   // it could not be carried out
}

// limits are how long a run may take, and how long it may write nothing.
type limits struct{ whole, silence time.Duration }

// attempt carries a check out once, with a fault or, if it is nil, without.
type attempt func(ctx context.Context, f *fault, most limits) outcome

// withoutFault limits a run without a fault: a machine may be slow.
var withoutFault = limits{10 * time.Minute, 10 * time.Minute}

// with limits a run with a fault, by one without.
func (r *runner) with(plain outcome) limits {
	three := func(seconds float64) time.Duration { return r.limit + time.Duration(3*seconds*float64(time.Second)) }
	return limits{three(plain.seconds), three(plain.silence)}
}

// group tries the faults with the same check, after a run without any.
func (r *runner) group(ctx context.Context, c check, faults []*fault, try attempt, err error) {
	one := func(f *fault, most limits) (o outcome, tried bool) {
		r.sem <- struct{}{}
		defer func() { <-r.sem }()
		if ctx.Err() != nil || r.spent() {
			return outcome{err: ctx.Err()}, false
		}
		return try(ctx, f, most), true
	}
	report := func(res result) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if ctx.Err() == nil {
			r.report(res)
		}
	}
	var plain outcome
	begun := try != nil
	if err == nil && begun {
		most := withoutFault
		if !r.until.IsZero() {
			most.whole = max(time.Second, min(most.whole, time.Until(r.until)))
		}
		if plain, begun = one(nil, most); begun {
			err = plain.err
		}
		if plain.hung && r.spent() { // the tests alone take longer than the budget
			begun, err = false, nil
		} else if plain.failed || plain.hung {
			err = fmt.Errorf("without a fault, %s fails:\n%s", c, plain.text)
		}
	}
	most := r.with(plain)
	for _, f := range faults {
		switch {
		case !begun:
			report(result{Name: f.name, Status: untried, fault: f})
			continue
		case err != nil:
			report(result{Name: f.name, Status: broken, Why: err.Error(), fault: f})
			continue
		}
		r.wg.Go(func() {
			o, tried := one(f, most)
			res := result{Name: f.name, Status: survived, By: o.by, Seconds: o.seconds, fault: f}
			if f.drawn {
				res.Within = c.pkg
			}
			switch {
			case !tried:
				res = result{Name: f.name, Status: untried, fault: f}
			case o.err != nil:
				res.Status, res.Why = broken, o.err.Error()
			case o.hung:
				res.Status = hung
			case o.failed:
				res.Status = noticed
			default:
				res.Where, res.Diff, res.Command = f.place(r.src), f.diff(r.src), f.again()
			}
			report(res)
		})
	}
}

// binary is the test binary of a package, with all faults of all packages.
type binary struct {
	path, dir string
	rapid     bool // it has the flags of pgregory.net/rapid
	builds    bool // its tests build programs
	err       error
}

// buildsPrograms is what the text of tests that build programs has.
var buildsPrograms = regexp.MustCompile(`exec\.Command(?:Context)?\((?:[^()"]|\(\))*"go"`)

// compile builds the test binary of a package.
func (r *runner) compile(ctx context.Context, pkg string, n int) binary {
	b := binary{path: filepath.Join(r.work, strconv.Itoa(n)+".test"),
		dir: filepath.Join(r.src.root, filepath.FromSlash(pkg))}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", b.path, pkg)
	build.Dir, build.Env = r.src.root, append(os.Environ(), r.goflags)
	if out, err := build.CombinedOutput(); err != nil {
		b.err = fmt.Errorf("go test -c %s with the faults: %w\n%s", pkg, err, out)
		return b
	} else if _, err := os.Stat(b.path); err != nil {
		b.err = fmt.Errorf("%s has no tests", pkg)
		return b
	}
	probe := exec.CommandContext(ctx, b.path, "-test.list=^$", "-rapid.nofailfile")
	probe.Dir = b.dir
	b.rapid = probe.Run() == nil
	tests, err := filepath.Glob(filepath.Join(b.dir, "*_test.go"))
	for _, t := range tests {
		text, failed := os.ReadFile(t)
		b.builds, err = b.builds || buildsPrograms.Match(text), errors.Join(err, failed)
	}
	b.err = err
	return b
}

// switched runs the tests of a binary with a fault switched on.
func (r *runner) switched(b binary, c check) attempt {
	return func(ctx context.Context, f *fault, most limits) outcome {
		args := []string{"-test.run=" + c.tests, "-test.v", "-test.failfast", "-test.timeout=" + most.whole.String()}
		if b.rapid { // the same programs each time; what they find is not kept, and need not be small
			args = append(args, "-rapid.seed=1", "-rapid.nofailfile", "-rapid.shrinktime=1ms")
		}
		id := "0"
		if f != nil {
			id = strconv.FormatUint(f.id(), 10)
		}
		o := r.execute(ctx, b.dir, most, []string{variable + "=" + id, r.goflags}, b.path, args...)
		if f == nil && b.builds && !o.failed && !o.hung { // the first run compiled the programs, too
			o = r.execute(ctx, b.dir, most, []string{variable + "=" + id, r.goflags}, b.path, args...)
		}
		if f == nil && strings.Contains(o.text, "testing: warning: no tests to run") {
			o.err = fmt.Errorf("%s: there is no such test", c)
		}
		return o
	}
}

// prepare runs the command of a list that makes what its tests need.
func (r *runner) prepare(ctx context.Context, command string) error {
	if command == "" {
		return nil
	}
	r.log("%s", command)
	o := r.execute(ctx, r.src.root, withoutFault, r.built(), "sh", "-c", command)
	if o.failed || o.hung {
		return fmt.Errorf("%s:\n%s", command, o.text)
	}
	return o.err
}

func (r *runner) built() []string { return []string{"BUILT=" + filepath.Join(r.work, "built")} }

// copied runs a command in a copy of its folder, in which the fault is.
func (r *runner) copied(c check) attempt {
	return func(ctx context.Context, f *fault, most limits) outcome {
		root, err := os.MkdirTemp(r.work, "copy")
		if err != nil {
			return outcome{err: err}
		}
		defer func() { _ = os.RemoveAll(root) }()
		if err := copyFolder(r.src.root, root, c.folder); err != nil {
			return outcome{err: err}
		}
		dir := filepath.Join(root, filepath.FromSlash(c.folder))
		if f != nil {
			text, err := r.src.read(f.file)
			if err == nil {
				text, err = f.apply(text)
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(root, filepath.FromSlash(f.file)), []byte(text), 0o600)
			}
			if err != nil {
				return outcome{err: err}
			}
		}
		if c.build != "" {
			o := r.execute(ctx, dir, withoutFault, r.built(), "sh", "-c", c.build)
			if o.failed || o.hung {
				o.err = fmt.Errorf("%s:\n%s", c.build, o.text)
			}
			if o.err != nil {
				return o
			}
		}
		return r.execute(ctx, dir, most, r.built(), "sh", "-c", c.command)
	}
}

// copyFolder copies a folder of the repository. What is beside it and beside the folders that it is in, and what its
// tools have installed, is linked.
func copyFolder(from, to, folder string) error {
	first, rest, deeper := strings.Cut(folder, "/")
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		source, target := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		switch {
		case folder != "" && e.Name() == first:
			err = os.Mkdir(target, 0o700)
			if !deeper {
				rest = ""
			}
			if err == nil {
				err = copyFolder(source, target, rest)
			}
		case folder != "" || e.Name() == "node_modules":
			err = os.Symlink(source, target)
		case e.Name() == "build" || e.Name() == "dist" || e.Name() == "__pycache__":
		default:
			err = copyAll(source, target)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyAll copies a file or a folder with what is in it.
func copyAll(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, info.Mode().Perm())
}

// kept is how much of what a run says is shown where that matters.
const kept = 4 << 10

// spoken is what a program has written, and when.
type spoken struct {
	mu      sync.Mutex
	text    bytes.Buffer
	last    time.Time
	longest time.Duration // that it wrote nothing
}

func (s *spoken) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard()
	return s.text.Write(p)
}

// heard begins to count anew.
func (s *spoken) heard() {
	s.longest, s.last = max(s.longest, time.Since(s.last)), time.Now()
}

// silent ends with the context, or as soon as nothing was written for so long.
func (s *spoken) silent(ctx context.Context, most time.Duration) bool {
	for {
		s.mu.Lock()
		left := most - time.Since(s.last)
		s.mu.Unlock()
		if left <= 0 {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(left):
		}
	}
}

// execute runs a program within limits of time, and ends it together with all that it started. The files that it makes
// where temporary files go are removed.
func (r *runner) execute(ctx context.Context, dir string, most limits, env []string, name string,
	args ...string) (o outcome) {
	temp, err := os.MkdirTemp(r.work, "temp")
	if err != nil {
		return outcome{err: err}
	}
	defer func() { _ = os.RemoveAll(temp) }()
	const toSayWhichTestsRan = 2 * time.Second
	limited, cancel := context.WithTimeout(ctx, most.whole+toSayWhichTestsRan)
	defer cancel()
	cmd := exec.CommandContext(limited, name, args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), env...), "TMPDIR="+temp)
	begin := time.Now()
	out := &spoken{last: begin}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = time.Second // a program that it started may keep the pipe
	inGroup(cmd)
	go func() {
		if out.silent(limited, most.silence) {
			cancel()
		}
	}()
	err = cmd.Run()
	endGroup(cmd, "TMPDIR="+temp)
	o.seconds = time.Since(begin).Seconds()
	out.mu.Lock()
	defer out.mu.Unlock()
	out.heard()
	o.silence = out.longest.Seconds()
	text := out.text.String()
	o.text = text
	if len(text) > kept {
		o.text = text[:kept/2] + "\n…\n" + text[len(text)-kept/2:]
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) &&
		limited.Err() == nil {
		o.err = err
		return o
	}
	o.hung = err != nil && limited.Err() != nil || strings.Contains(text, "panic: test timed out after")
	o.failed = err != nil
	if o.failed || o.hung {
		o.by = cmp.Or(failedTest(text), unfinishedTest(text))
	}
	return o
}

// failures are how the runners of tests say which test failed, the best first.
var failures = []*regexp.Regexp{
	regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`),
	regexp.MustCompile(`running tests:\n\s+(\S+)`),
	regexp.MustCompile(`(?m)^(?:FAIL|ERROR): (.+)$`),
	regexp.MustCompile(`(?m)^\s*not ok \d+ - (.+)$`),
	regexp.MustCompile(`\.(Test\w+)(?:\.func[\d.]+)?\(`), // in the stack of a panic
	regexp.MustCompile(`(?m)^((?:panic|fatal error): .+)$`),
}

// failedTest is the first test that failed, empty if the text does not say it.
func failedTest(text string) string {
	for _, re := range failures {
		if m := re.FindStringSubmatch(text); m != nil {
			return m[1]
		}
	}
	return ""
}

var (
	beginOfTest = regexp.MustCompile(`(?m)^=== (?:RUN|CONT) +(\S+)$`)
	endOfTest   = regexp.MustCompile(`(?m)^ *--- (?:PASS|SKIP|FAIL): (\S+)`)
)

// unfinishedTest is the test that began last of those that have not ended.
func unfinishedTest(text string) string {
	ended := map[string]bool{}
	for _, m := range endOfTest.FindAllStringSubmatch(text, -1) {
		ended[m[1]] = true
	}
	for _, m := range slices.Backward(beginOfTest.FindAllStringSubmatch(text, -1)) {
		if !ended[m[1]] {
			return m[1]
		}
	}
	return ""
}
