package main

import (
	"bytes"
	"cmp"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

const (
	modulePath = "github.com/leasehold-dev/leasehold"
	repository = "https://" + modulePath
)

// program is a command of the module that a release has.
type program struct {
	name, pkg, tags string
}

var (
	leasehold = program{"leasehold", "./cmd/leasehold", ""}
	// those of a zip for Lambda: the first has the name of the runtime provided.al2023; the tags are those of make lambda
	functions = []program{
		{"bootstrap", "./functions/aws/lambda", "lambda.norpc,leasehold.noprofiles,leasehold.noqueues"},
		{"queues", "./functions/aws/lambda", "lambda.norpc,leasehold.noprofiles"},
	}
)

// binary is a program that was built for a platform.
type binary struct {
	program  program
	platform platform
	content  []byte
	info     *debug.BuildInfo
	packages []listed
}

// file is the program as its archives have it.
func (b *binary) file() file {
	name := b.program.name
	if b.platform.os == "windows" {
		name += ".exe"
	}
	return file{name: name, content: b.content, program: true}
}

// builder makes one release.
type builder struct {
	*order

	source    *source
	tmp       string
	label     string // the version, as it stands in names of files
	goVersion string
	goRoot    string
	log       io.Writer
}

func newBuilder(ctx context.Context, o *order, tmp string, log io.Writer) (*builder, error) {
	b := &builder{order: o, tmp: tmp, log: log, label: string(o.version)}
	var err error
	if b.source, err = openSource(ctx, o.repo, filepath.Join(tmp, "src"), o.version, o.dirty); err != nil {
		return nil, err
	}
	if b.source.dirty {
		b.label += "-dirty"
	}
	env, err := b.goCommand(ctx, b.host(), "env", "-json", "GOVERSION", "GOROOT")
	if err != nil {
		return nil, err
	}
	var known struct{ GOVERSION, GOROOT string }
	if err := json.Unmarshal(env, &known); err != nil {
		return nil, err
	}
	b.goVersion, b.goRoot = known.GOVERSION, known.GOROOT
	b.logf("%s of %s, %s", cmp.Or(b.label, "no version"), b.source.commit, b.goVersion)
	return b, nil
}

// logf says what is done next.
func (b *builder) logf(format string, args ...any) {
	fmt.Fprintf(b.log, "release: "+format+"\n", args...)
}

// host is the platform that this program runs on.
func (b *builder) host() platform { return platform{runtime.GOOS, runtime.GOARCH} }

// release makes the files of the release.
func (b *builder) release(ctx context.Context) ([]file, error) {
	if err := clientVersions(b.source.dir, b.version); err != nil && !b.source.dirty {
		return nil, err
	}
	var programs []*binary
	for _, p := range b.platforms {
		built, err := b.build(ctx, leasehold, p)
		if err != nil {
			return nil, err
		}
		programs = append(programs, built)
	}
	all := slices.Clone(programs)
	lambdas := map[platform][]file{}
	for _, p := range b.platforms {
		if p.os != "linux" {
			continue
		}
		for _, f := range functions {
			built, err := b.build(ctx, f, p)
			if err != nil {
				return nil, err
			}
			all, lambdas[p] = append(all, built), append(lambdas[p], built.file())
		}
	}

	b.logf("licenses of what is linked")
	modules, err := b.modules(all)
	if err != nil {
		return nil, err
	}
	notices := file{name: "THIRD_PARTY_NOTICES.txt", content: b.notices(modules)}
	license, err := b.sourceFile("LICENSE")
	if err != nil {
		return nil, err
	}

	b.logf("manual pages, completion")
	pages, err := b.pages(ctx, programs)
	if err != nil {
		return nil, err
	}
	readme, err := b.sourceFile("README.md")
	if err != nil {
		return nil, err
	}
	changes, err := b.sourceFile("CHANGELOG.md")
	if err != nil {
		return nil, err
	}

	b.logf("archives")
	var made []file
	for _, p := range programs {
		archive, err := b.archive(p, append([]file{license, readme, changes, notices}, pages...))
		if err != nil {
			return nil, err
		}
		made = append(made, archive)
	}
	for p, files := range lambdas { // made is sorted below
		content, err := zipped(append(files, license, notices), b.source.time)
		if err != nil {
			return nil, err
		}
		made = append(made, file{name: b.name("lambda-"+p.arch) + ".zip", content: content})
	}
	sources, err := b.source.functions(ctx)
	if err != nil {
		return nil, err
	}
	content, err := zipped(sources, b.source.time)
	if err != nil {
		return nil, err
	}
	made = append(made, file{name: b.name("functions-source") + ".zip", content: content})

	b.logf("image")
	image, err := b.image(programs, license, notices)
	if err != nil {
		return nil, err
	}
	if image != nil {
		made = append(made, file{name: b.name("image") + ".tar", content: image})
	}
	sbom, err := b.sbom(all, modules)
	if err != nil {
		return nil, err
	}
	made = append(made, file{name: b.name("sbom") + ".cdx.json", content: sbom}, notices)
	provenance, err := b.provenance(made)
	if err != nil {
		return nil, err
	}
	made = append(made, provenance)
	return append(sorted(made), checksums(made)), nil
}

// name is the name of a file of the release without what says its format.
func (b *builder) name(part string) string { return "leasehold-" + b.label + "-" + part }

// archive is the download of a platform: a folder with the program and what belongs to it.
func (b *builder) archive(p *binary, beside []file) (file, error) {
	folder := b.name(p.platform.os + "-" + p.platform.arch)
	files := below(folder, append([]file{p.file()}, beside...))
	if p.platform.os == "windows" {
		content, err := zipped(files, b.source.time)
		return file{name: folder + ".zip", content: content}, err
	}
	content, err := tarGzip(files, b.source.time)
	return file{name: folder + ".tar.gz", content: content}, err
}

// sourceFile is a file in the root of the sources.
func (b *builder) sourceFile(name string) (file, error) {
	content, err := os.ReadFile(filepath.Join(b.source.dir, name))
	return file{name: name, content: content}, err
}

// build builds a program for a platform, without cgo and without what depends on this machine, and looks at what Go
// recorded in it.
func (b *builder) build(ctx context.Context, p program, target platform) (*binary, error) {
	b.logf("build %s for %s", p.pkg, target)
	path := filepath.Join(b.tmp, p.name+"-"+target.os+"-"+target.arch)
	args := slices.Concat([]string{"build"}, buildFlags, []string{"-tags=" + p.tags, "-o", path, p.pkg})
	if _, err := b.goCommand(ctx, target, args...); err != nil {
		return nil, err
	}
	built := &binary{program: p, platform: target}
	var err error
	if built.content, err = os.ReadFile(path); err != nil {
		return nil, err
	}
	if built.info, err = buildinfo.Read(bytes.NewReader(built.content)); err != nil {
		return nil, err
	}
	if err := b.check(built); err != nil {
		return nil, fmt.Errorf("%s for %s: %w", p.pkg, target, err)
	}
	out, err := b.goCommand(ctx, target, "list", "-deps", "-json=ImportPath,Dir,Standard,Module", "-tags="+p.tags, p.pkg)
	if err != nil {
		return nil, err
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return built, nil
		} else if err != nil {
			return nil, err
		}
		built.packages = append(built.packages, l)
	}
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir string
	Standard        bool
	Module          *struct{ Path, Version, Dir string }
}

// check makes sure that a program was built from the commit and says so, and with no setting that is not stated here.
func (b *builder) check(built *binary) error {
	want := map[string]string{
		"-buildmode": "exe", "-compiler": "gc", "-trimpath": "true", "CGO_ENABLED": "0", "GOOS": built.platform.os,
		"GOARCH": built.platform.arch,
		"vcs":    "git", "vcs.revision": b.source.commit, "vcs.modified": strconv.FormatBool(b.source.dirty), "vcs.time": "",
		"GOAMD64": "v1", "GOARM64": "v8.0", "-tags": built.program.tags,
	}
	for _, s := range built.info.Settings {
		if value, ok := want[s.Key]; !ok || value != "" && s.Value != value {
			return fmt.Errorf("it was built with %s=%s, which a release must not depend on: is it set with \"go env -w\"?",
				s.Key, s.Value)
		}
		if s.Key == "vcs.revision" {
			delete(want, s.Key)
		}
	}
	version := string(b.version)
	if b.source.dirty && version != "" {
		version += "+dirty"
	}
	switch {
	case want["vcs.revision"] != "":
		return errors.New("Go recorded no commit in it; is git older than the sources?")
	case version != "" && built.info.Main.Version != version:
		return fmt.Errorf("it says that it is %s, not %s", built.info.Main.Version, version)
	}
	return nil
}

// buildFlags and buildEnv are what every program is built with. An empty GOFLAGS would be that of "go env -w".
var (
	buildFlags = []string{"-trimpath", "-buildvcs=true", "-ldflags=-s -w"}
	buildEnv   = []string{"GOFLAGS=-mod=readonly", "GOWORK=off", "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0"}
)

// unset are variables that change what Go builds, or where it reads it.
var unset = []string{"GOFLAGS", "GOOS", "GOARCH", "GOEXPERIMENT", "GODEBUG", "GOFIPS140", "GO111MODULE", "GOROOT",
	"GOGC", "GOMEMLIMIT"}

// goCommand runs the Go command in the sources.
func (b *builder) goCommand(ctx context.Context, target platform, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = b.source.dir
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if !slices.Contains(unset, name) && !slices.Contains(whichRepository, name) {
			c.Env = append(c.Env, kv)
		}
	}
	c.Env = append(append(c.Env, buildEnv...), "GOOS="+target.os, "GOARCH="+target.arch)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}

// pages are the manual pages and the scripts of completion, which the program itself prints.
func (b *builder) pages(ctx context.Context, programs []*binary) ([]file, error) {
	i := slices.IndexFunc(programs, func(p *binary) bool { return p.platform == b.host() })
	var here *binary
	if i >= 0 {
		here = programs[i]
	} else {
		var err error
		if here, err = b.build(ctx, leasehold, b.host()); err != nil {
			return nil, err
		}
	}
	path := filepath.Join(b.tmp, here.file().name)
	if err := os.WriteFile(path, here.content, 0o700); err != nil {
		return nil, err
	}
	run := func(args ...string) ([]byte, error) {
		c := exec.CommandContext(ctx, path, args...)
		c.Env = []string{"SystemRoot=" + os.Getenv("SystemRoot")} // no setting of this machine; Windows needs this one
		out, err := c.Output()
		if err != nil {
			return nil, fmt.Errorf("leasehold %s: %w", strings.Join(args, " "), err)
		}
		return out, nil
	}
	man := filepath.Join(b.tmp, "man1")
	if _, err := run("man", "--dir", man); err != nil {
		return nil, err
	}
	files, err := tree(man, "man/man1/")
	if err != nil {
		return nil, err
	}
	for shell, name := range map[string]string{"bash": "leasehold.bash", "zsh": "_leasehold", "fish": "leasehold.fish"} {
		script, err := run("completion", shell)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: "completions/" + name, content: script})
	}
	return files, nil
}
