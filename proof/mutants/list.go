package main

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// fault is one entry of a list: a mistake that a programmer could make, and the tests that must notice it.
type fault struct {
	name string // the list's and its own: lock/late-renewal
	list string // the path of the list; the file if it is in none
	line int    // where its name stands in the list
	file string // the file that it changes, from the root of the repository
	// a text that occurs once in the file, before the one that is replaced; empty is the beginning of the file
	after string
	old   string // what it replaces; how its lines are broken and indented does not matter
	new   string
	check check

	drawn      bool // it is in no list: its text stands at
	begin, end int
	judges     []string // the packages whose tests may notice it if those of the check do not
}

// check is what must notice a fault. Faults with equal checks share the run without a fault.
type check struct {
	// Go: a package, as ./repo/lock, and the tests of it, as -run has them; all if it is empty.
	pkg, tests string

	// Everything else: a folder, a command that is run once in the root for all faults, one that is run in each copy of
	// the folder before the test, and the test. $BUILT is a folder for what the first one makes.
	folder, prepare, build, command string
}

// switched reports whether the fault is in a build that has all faults; the others are tested in a copy each.
func (c check) switched() bool { return c.folder == "" }

func (c check) String() string {
	if !c.switched() {
		return c.command
	}
	return strings.TrimSpace("go test " + c.pkg + " -run '" + c.tests + "'")
}

// id is what the environment variable holds while the fault is switched on.
func (f *fault) id() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(f.name))
	return h.Sum64() | 1 // 0 is no fault
}

// where is where a reader finds the entry.
func (f *fault) where() string { return fmt.Sprintf("%s:%d: %s", f.list, f.line, f.name) }

// readLists reads all lists of a folder.
func readLists(folder string) ([]*fault, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no lists: there is no *.txt in %s", folder)
	}
	var all []*fault
	named, ids := map[string]bool{}, map[uint64]bool{}
	var errs []error
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		list, err := parseList(p, string(text))
		errs = append(errs, err)
		for _, f := range list {
			if named[f.name] || ids[f.id()] {
				errs = append(errs, fmt.Errorf("%s: the name is taken", f.where()))
			}
			named[f.name], ids[f.id()] = true, true
		}
		all = append(all, list...)
	}
	return all, errors.Join(errs...)
}

// entryName is what a fault can be called.
var entryName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// parseList reads a list. What stands before an entry holds for all that follow; what stands in it, for itself.
func parseList(from, text string) ([]*fault, error) {
	base := strings.TrimSuffix(filepath.Base(from), ".txt")
	var (
		all        []*fault
		errs       []error
		common     fault // what holds for the entries to come
		now        = &common
		olds, news []string
		finish     func()
		problem    = func(n int, format string, args ...any) {
			errs = append(errs, fmt.Errorf("%s:%d: "+format, append([]any{from, n}, args...)...))
		}
		unindented     = func(line string) string { return strings.TrimLeft(line, " \t") }
		content        = func(line string) string { return strings.TrimPrefix(line[1:], " ") }
		isGo           = func(f *fault) bool { return f.check.folder == "" }
		betweenEntries = func() { now = &common }
	)
	finish = func() {
		if now == &common {
			return
		}
		if len(olds) == 0 {
			problem(now.line, "%s: no line begins with -: say what is replaced", now.name)
		}
		for i := range olds {
			olds[i] = unindented(olds[i])
		}
		if len(news) > 0 {
			news[0] = unindented(news[0])
		}
		now.old, now.new = strings.Join(olds, "\n"), strings.Join(news, "\n")
		olds, news = nil, nil
		switch {
		case now.file == "":
			problem(now.line, "%s: no file", now.name)
		case isGo(now) && now.check.pkg == "":
			problem(now.line, "%s: no test", now.name)
		case !isGo(now) && now.check.command == "":
			problem(now.line, "%s: no test", now.name)
		}
		if !isGo(now) {
			now.file = path.Join(now.check.folder, now.file)
		}
		all = append(all, now)
		betweenEntries()
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\n")
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "":
			finish() // an empty line ends an entry
		case strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "-"):
			olds = append(olds, content(line))
		case strings.HasPrefix(line, "+"):
			news = append(news, content(line))
		case word == "=":
			finish()
			if !entryName.MatchString(rest) {
				problem(n, "%q is no name: lower case, digits and single hyphens", rest)
			}
			f := common
			f.name, f.list, f.line = base+"/"+rest, from, n
			now = &f
		case word == "file":
			now.file = rest
		case word == "after":
			now.after = rest
		case word == "test" && isGo(now):
			now.check.pkg, now.check.tests, _ = strings.Cut(rest, " ")
		case word == "test":
			now.check.command = rest
		case word == "folder":
			now.check.folder = rest
		case word == "prepare":
			now.check.prepare = rest
		case word == "build":
			now.check.build = rest
		default:
			problem(n, "%q: a line begins with =, -, +, #, file, after, test, folder, prepare or build", word)
		}
		if now == &common && len(olds)+len(news) > 0 {
			problem(n, "what is replaced belongs to an entry, which begins with a =")
			olds, news = nil, nil
		}
	}
	finish()
	return all, errors.Join(errs...)
}

// find returns where in the text of its file the fault's old text stands. An entry that does not fit is stale.
func (f *fault) find(text string) (begin, end int, err error) {
	if f.drawn {
		return f.begin, f.end, nil
	}
	from := 0
	if f.after != "" {
		if n := strings.Count(text, f.after); n != 1 {
			return 0, 0, fmt.Errorf("%s: stale: %q, after which it stands, occurs %d times in %s", f.where(), f.after, n, f.file)
		}
		from = strings.Index(text, f.after) + len(f.after)
	}
	lines := strings.Split(f.old, "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(regexp.QuoteMeta(lines[i])), `\s+`)
	}
	found := regexp.MustCompile(strings.Join(lines, `\s+`)).FindAllStringIndex(text[from:], 2)
	switch {
	case len(found) == 0:
		return 0, 0, fmt.Errorf("%s: stale: %s does not have the text %q", f.where(), f.file, f.old)
	case len(found) > 1 && f.after == "":
		return 0, 0, fmt.Errorf("%s: %s has the text %q more than once: replace more of it, or say after what it stands",
			f.where(), f.file, f.old)
	}
	if begin, end = from+found[0][0], from+found[0][1]; text[begin:end] == f.new {
		return 0, 0, fmt.Errorf("%s: it changes nothing", f.where())
	}
	return begin, end, nil
}

// apply returns the text of the file with the fault.
func (f *fault) apply(text string) (string, error) {
	begin, end, err := f.find(text)
	if err != nil {
		return "", err
	}
	return text[:begin] + f.new + text[end:], nil
}

// sources reads files of the repository, each once.
type sources struct {
	root  string
	texts map[string]string
}

func (s *sources) read(file string) (string, error) {
	if text, ok := s.texts[file]; ok {
		return text, nil
	}
	content, err := os.ReadFile(filepath.Join(s.root, filepath.FromSlash(file)))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no %s", file)
	} else if err != nil {
		return "", err
	}
	if s.texts == nil {
		s.texts = map[string]string{}
	}
	s.texts[file] = string(content)
	return string(content), nil
}

// stale returns what is wrong with entries: each text must be in its file once, and each file of Go must still be one
// with the fault.
func stale(src *sources, faults []*fault) error {
	var errs []error
	for _, f := range faults {
		text, err := src.read(f.file)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: stale: %w", f.where(), err))
			continue
		}
		if _, err := f.apply(text); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
