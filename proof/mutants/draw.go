package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// notDrawn are the folders whose mistakes no user meets. Named packages are drawn from wherever they are.
var notDrawn = regexp.MustCompile(`^(proof|tests|emulator|examples|contracts/conformance|contracts/internal)(/|$)|test$`)

// programs is the package whose tests build the programs, which have every package.
const programs = "./tests"

// goPackage is what go list says of a package.
type goPackage struct {
	Dir, ImportPath                    string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
}

func (p goPackage) tested() bool { return len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 }

// packages are those of a module, as go list knows them.
type packages struct {
	root string
	all  []goPackage
}

func goList(ctx context.Context, root string, patterns ...string) (*packages, error) {
	args := append([]string{"list", "-json=Dir,ImportPath,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports"},
		patterns...)
	out, err := goCommand(ctx, root, args...)
	if err != nil {
		return nil, err
	}
	p := &packages{root: root}
	if p.root, err = filepath.EvalSymlinks(root); err != nil {
		return nil, err
	}
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var one goPackage
		if err := d.Decode(&one); err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		p.all = append(p.all, one)
	}
	return p, nil
}

// goCommand runs go in a folder, and returns what it prints.
func goCommand(ctx context.Context, dir string, args ...string) (string, error) {
	return output(ctx, dir, "go", args...)
}

func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	out, err := c.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, exit.Stderr)
	}
	return string(out), err
}

// folder is where a package is, from the root.
func (p *packages) folder(pkg goPackage) string {
	dir := pkg.Dir
	if target, err := filepath.EvalSymlinks(dir); err == nil {
		dir = target
	}
	rel, err := filepath.Rel(p.root, dir)
	if err != nil {
		return dir
	}
	return filepath.ToSlash(rel)
}

// judges are the packages whose tests may notice a fault of a package: its own, those that import it, and that of the
// programs.
func (p *packages) judges(of goPackage) []string {
	var own, others, last []string
	for _, pkg := range p.all {
		name := "./" + p.folder(pkg)
		switch {
		case !pkg.tested():
		case pkg.ImportPath == of.ImportPath:
			own = append(own, name)
		case name == programs:
			last = append(last, name)
		case slices.Contains(slices.Concat(pkg.Imports, pkg.TestImports, pkg.XTestImports), of.ImportPath):
			others = append(others, name)
		}
	}
	return slices.Concat(own, others, last)
}

// drawable are the faults that can be made of packages: those that patterns of go list name, or the product. Accepted
// ones are left out. Each is tried with the first package of its judges, and if wider, with the others: without, there
// are none of packages that only programs test.
func drawable(src *sources, all, chosen *packages, named, wider bool, accepted map[string]string) ([]*fault, error) {
	var faults []*fault
	for _, pkg := range chosen.all {
		dir := chosen.folder(pkg)
		judges := all.judges(pkg)
		if len(judges) == 0 || !wider && judges[0] == programs || !named && notDrawn.MatchString(dir) {
			continue
		}
		if !wider {
			judges = judges[:1]
		}
		for _, name := range pkg.GoFiles {
			file := path.Join(dir, name)
			text, err := src.read(file)
			if err != nil {
				return nil, err
			}
			made, err := candidates(file, text)
			if err != nil {
				return nil, err
			}
			for _, f := range made {
				if accepted[f.name] == "" {
					f.check.pkg, f.judges = judges[0], judges[1:]
					faults = append(faults, f)
				}
			}
		}
	}
	return faults, nil
}

// draw chooses so many faults by a seed. Those that do not compile are replaced by others.
func (r *runner) draw(ctx context.Context, from []*fault, n int, seed uint64) (drawn []*fault, err error) {
	from = slices.Clone(from)
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })
	for len(drawn) < n && len(from) > 0 {
		next := from[:min(n-len(drawn), len(from))]
		from = from[len(next):]
		_, compile, err := r.compiling(ctx, next, func(result) {})
		if err != nil {
			return nil, err
		}
		drawn = append(drawn, compile...)
	}
	return drawn, nil
}

// readAccepted reads the list of drawn faults that no caller can see: in each line the name of one, and why.
func readAccepted(src *sources, list string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(src.root, filepath.FromSlash(list)))
	if errors.Is(err, os.ErrNotExist) {
		return map[string]string{}, nil
	} else if err != nil {
		return nil, err
	}
	accepted, made := map[string]string{}, map[string]map[string]bool{}
	var errs []error
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		name, why, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		file := path.Dir(path.Dir(name)) + ".go"
		if made[file] == nil {
			made[file] = map[string]bool{}
			code, err := src.read(file)
			var all []*fault
			if err == nil {
				all, err = candidates(file, code)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s:%d: stale: %w", list, n, err))
			}
			for _, f := range all {
				made[file][f.name] = true
			}
		}
		switch why = strings.TrimSpace(why); {
		case why == "":
			errs = append(errs, fmt.Errorf("%s:%d: %s: say why no caller can see it", list, n, name))
		case !made[file][name]:
			errs = append(errs, fmt.Errorf("%s:%d: stale: %s has no such fault: %s", list, n, file, name))
		}
		accepted[name] = why
	}
	return accepted, errors.Join(errs...)
}

// changedFiles are the files that are not as they were in a commit, also those that are in none.
func changedFiles(ctx context.Context, root, base string) (map[string]bool, error) {
	files := map[string]bool{}
	for _, args := range [][]string{
		{"diff", "--name-only", "--relative", base, "--"}, {"ls-files", "--others", "--exclude-standard"},
	} {
		out, err := output(ctx, root, "git", args...)
		if err != nil {
			return nil, fmt.Errorf("-changed: %w", err)
		}
		for name := range strings.Lines(out) {
			files[strings.TrimSpace(name)] = true
		}
	}
	return files, nil
}

// place is where the text of a fault begins.
func (f *fault) place(src *sources) string {
	text, err := src.read(f.file)
	if err != nil {
		return f.file
	}
	begin, _, err := f.find(text)
	if err != nil {
		return f.file
	}
	return fmt.Sprintf("%s:%d", f.file, 1+strings.Count(text[:begin], "\n"))
}

// diff is what a fault changes, in whole lines.
func (f *fault) diff(src *sources) string {
	text, err := src.read(f.file)
	if err != nil {
		return ""
	}
	begin, end, err := f.find(text)
	if err != nil {
		return ""
	}
	first := strings.LastIndexByte(text[:begin], '\n') + 1
	last := len(text)
	if i := strings.IndexByte(text[end:], '\n'); i >= 0 {
		last = end + i
	}
	var out strings.Builder
	for _, side := range []struct{ sign, text string }{
		{"- ", text[first:last]}, {"+ ", text[first:begin] + f.new + text[end:last]},
	} {
		for line := range strings.Lines(side.text) {
			if line = strings.TrimRight(line, " \t\n"); line != "" {
				out.WriteString(side.sign + line + "\n")
			}
		}
	}
	return out.String()
}

// again is the command that tries the fault alone.
func (f *fault) again() string {
	of := "go run ./proof/mutants"
	if f.drawn {
		of += " -random 1 -package ./" + path.Dir(f.file)
	}
	return of + " -run '^" + regexp.QuoteMeta(f.name) + "$'"
}
