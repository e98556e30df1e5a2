package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// linked is a module of others, in at least one of the programs.
type linked struct {
	path, version string
	sum           string // of go.sum
	dir           string
	folders       []string // those of the packages that are linked
	files         []file   // licenses and notices, with names from the root of the module
	licenses      []string // what the files are, by their SPDX identifiers
}

// name is how the build info names the module, too. The standard library is not in it.
func (m *linked) name() string { return m.path + " " + m.version }

// standard is what programs have of Go itself.
const standard = "std"

// accepted are the licenses under which this project may pass on the work of others in its programs, with no more than
// their text.
var accepted = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "Unlicense", "CC0-1.0",
	"BlueOak-1.0.0", "0BSD", "Zlib", "MPL-2.0", "Apache-with-LLVM-Exception"}

// patentGrant is what Google's modules have beside their license. It only adds to it, and has no SPDX identifier.
const patentGrant = "GooglePatentsFile"

// licenseFile is the name of a file that must go along. What ends with an unusual suffix is source code or the same
// once more.
var licenseFile = regexp.MustCompile(
	`(?i)^(un)?(licen[cs]es?|copying|copyright|notices?|patents|third[-_]?party.*)([-_.].*)?$`)

var notALicense = regexp.MustCompile(`(?i)\.(go|html|tmpl|tpl|json|ya?ml|s)$`)

// modules are the modules of others that the programs have linked, with their licenses. A module without a license, or
// with one that is not accepted, is an error: it must be looked at before its work is passed on.
func (b *builder) modules(programs []*binary) ([]*linked, error) {
	found := map[string]*linked{}
	for _, p := range programs {
		recorded := map[string]bool{standard + " " + b.goVersion: true}
		for _, m := range p.info.Deps {
			if m.Replace != nil {
				return nil, fmt.Errorf("%s is replaced in go.mod: a release has published modules only", m.Path)
			}
			recorded[m.Path+" "+m.Version] = true
		}
		listed := map[string]bool{}
		for _, pkg := range p.packages {
			m := &linked{path: standard, version: b.goVersion, dir: b.goRoot}
			switch {
			case pkg.Standard:
			case pkg.Module == nil || pkg.Module.Path == modulePath:
				continue
			default:
				m = &linked{path: pkg.Module.Path, version: pkg.Module.Version, dir: pkg.Module.Dir}
			}
			name := m.name()
			if !recorded[name] {
				return nil, fmt.Errorf("go list says that %s has packages of %s, the program itself does not", p.program.pkg, name)
			}
			listed[name] = true
			if found[name] == nil {
				found[name] = m
			}
			if m = found[name]; !slices.Contains(m.folders, pkg.Dir) {
				m.folders = append(m.folders, pkg.Dir)
			}
		}
		for _, d := range p.info.Deps {
			name := d.Path + " " + d.Version
			if !listed[name] {
				return nil, fmt.Errorf("%s has linked %s, go list does not say so", p.program.pkg, name)
			}
			found[name].sum = d.Sum
		}
	}
	var modules []*linked
	var problems []error
	for _, m := range found {
		modules = append(modules, m)
		problems = append(problems, m.read())
	}
	slices.SortFunc(modules, func(a, b *linked) int { return cmp.Compare(a.name(), b.name()) })
	return modules, errors.Join(problems...)
}

// read finds the module's licenses: in its root, and in the folders of linked packages and above them.
func (m *linked) read() error {
	folders := map[string]bool{m.dir: true}
	if m.path != standard { // parts of the standard library that others wrote have their licenses in their comments
		for _, folder := range m.folders {
			for ; strings.HasPrefix(folder, m.dir+string(filepath.Separator)); folder = filepath.Dir(folder) {
				folders[folder] = true
			}
		}
	}
	for folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !e.Type().IsRegular() || !licenseFile.MatchString(e.Name()) || notALicense.MatchString(e.Name()) {
				continue
			}
			content, err := os.ReadFile(filepath.Join(folder, e.Name()))
			if err != nil {
				return err
			}
			name, err := filepath.Rel(m.dir, filepath.Join(folder, e.Name()))
			if err != nil {
				return err
			}
			m.files = append(m.files, file{name: filepath.ToSlash(name), content: content})
		}
	}
	m.files = sorted(m.files)
	return m.classify()
}

// classify names the licenses of the files.
func (m *linked) classify() error {
	for _, f := range m.files {
		for _, match := range licensecheck.Scan(f.content).Match {
			if match.IsURL || match.ID == patentGrant || slices.Contains(m.licenses, match.ID) {
				continue
			}
			m.licenses = append(m.licenses, match.ID)
		}
	}
	slices.Sort(m.licenses)
	if len(m.licenses) == 0 {
		return fmt.Errorf("%s: no license was recognized in %q; who may pass it on?", m.name(), names(m.files))
	}
	for _, id := range m.licenses {
		if !slices.Contains(accepted, id) {
			return fmt.Errorf("%s: its license %s is not one of those that are accepted: %s", m.name(), id,
				strings.Join(accepted, ", "))
		}
	}
	return nil
}

func names(files []file) []string {
	list := []string{}
	for _, f := range files {
		list = append(list, f.name)
	}
	return list
}

// notices are the licenses of all modules, each text once.
func (b *builder) notices(modules []*linked) []byte {
	var texts []string
	users := map[string][]string{}
	var out strings.Builder
	fmt.Fprintf(&out, `Leasehold %s: the work of others in it

The programs of this release contain the modules below, under the licenses that are named. Their texts follow.
The container image also has the root certificates of Mozilla (https://www.mozilla.org/MPL/2.0/), as the
Go module %s %s has them.

`, b.label, rootsModule, rootsVersion())
	for _, m := range modules {
		name := m.name()
		if m.path == standard {
			name = "the Go standard library and runtime " + m.version
		}
		fmt.Fprintf(&out, "  %s: %s\n", name, strings.Join(m.licenses, ", "))
		for _, f := range m.files {
			text := strings.TrimSpace(strings.ReplaceAll(string(f.content), "\r\n", "\n"))
			if users[text] == nil {
				texts = append(texts, text)
			}
			users[text] = append(users[text], name+" ("+f.name+")")
		}
	}
	line := strings.Repeat("=", 100)
	for _, text := range texts {
		fmt.Fprintf(&out, "\n%s\n%s\n%s\n\n%s\n", line, strings.Join(users[text], "\n"), line, text)
	}
	return []byte(out.String())
}
