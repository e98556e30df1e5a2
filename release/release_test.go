//go:build unix

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"debug/buildinfo"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	containers "github.com/google/go-containerregistry/pkg/v1"
	imagelayout "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const testVersion = "v0.9.1-test.1"

// clone is the commit that is checked out here, with the changes of the working tree as a commit of its own.
var clone = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp(testFolder, "")
	if err != nil {
		return "", err
	}
	top, err := filepath.Abs("..")
	if err != nil {
		return "", err
	}
	s, err := openSource(context.Background(), top, filepath.Join(dir, "clone"), "", true)
	if err != nil {
		return "", err
	}
	if err := setVersions(s.dir, version(testVersion)); err != nil {
		return "", err
	}
	for _, args := range [][]string{
		{"add", "--all"},
		{"-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false", "commit", "--quiet",
			"--allow-empty", "--message", "test"},
	} {
		if _, err := git(context.Background(), s.dir, args...); err != nil {
			return "", err
		}
	}
	return s.dir, nil
})

// testFolder is for what several tests use.
var testFolder string

func TestMain(m *testing.M) {
	var err error
	if testFolder, err = os.MkdirTemp("", "leasehold-release-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(testFolder)
	os.Exit(code)
}

// made is the release of that clone, for this platform's programs and for those of linux/amd64, and where it is.
var made = sync.OnceValues(func() (string, error) {
	dir, err := clone()
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	err = run(context.Background(), []string{"-repo", dir, "-platforms", testPlatforms(), testVersion}, &out, os.Stderr)
	return filepath.Join(dir, "dist", testVersion), err
})

// testPlatforms are linux/amd64, this one and, unless tests are to be short, linux/arm64.
func testPlatforms() string {
	if more := os.Getenv("LEASEHOLD_TEST_PLATFORMS"); more != "" {
		return more
	}
	names := []string{"linux/amd64"}
	if !testing.Short() {
		names = append(names, "linux/arm64")
	}
	if here := (platform{runtime.GOOS, runtime.GOARCH}).String(); !slices.Contains(names, here) {
		names = append(names, here)
	}
	return strings.Join(names, ",")
}

// testArchitectures are those of Linux among the platforms: images and functions are made for these.
func testArchitectures() (names []string) {
	for name := range strings.SplitSeq(testPlatforms(), ",") {
		if arch, ok := strings.CutPrefix(name, "linux/"); ok {
			names = append(names, arch)
		}
	}
	return names
}

func released(t *testing.T) string {
	t.Helper()
	dir, err := made()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestReproducible: another clone in a folder with another name, by a user with another umask, time zone, language and
// home folder, with Go settings that would change the programs, makes the same files. A file that differs is noticed.
func TestReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("a release is made twice unless tests are to be short")
	}
	dir := released(t)
	repo, err := clone()
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "another folder")
	for _, args := range [][]string{
		// tags of a clone do not count
		{"clone", "--quiet", repo, other}, {"-C", other, "tag", "v0.9.0"}, {"-C", other, "tag", "v7"},
	} {
		if _, err := git(t.Context(), ".", args...); err != nil {
			t.Fatal(err)
		}
	}
	// What git ignores, Go would compile.
	if err := os.WriteFile(filepath.Join(other, ".git", "info", "exclude"), []byte("ignored.go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "cmd", "leasehold", "ignored.go"),
		[]byte("package main\n\nfunc init() { panic(`ignored`) }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cache := goEnv(t, "GOCACHE", "GOMODCACHE")
	for name, value := range map[string]string{
		"TZ": "Asia/Kathmandu", "LANG": "tr_TR.UTF-8", "HOME": t.TempDir(), "GOCACHE": cache["GOCACHE"],
		"GOMODCACHE": cache["GOMODCACHE"],
		"GOFLAGS":    "-buildvcs=false -tags=other", "GOAMD64": "v3", "GOARM64": "v9.0", "GODEBUG": "http2client=0",
		"TMPDIR": t.TempDir(), "LEASEHOLD_LISTEN": "x",
		"GIT_DIR": "/nowhere",
	} {
		t.Setenv(name, value)
	}
	defer syscall.Umask(syscall.Umask(0o077))
	sums := filepath.Join(dir, "SHA256SUMS")
	var out bytes.Buffer
	args := []string{"-repo", other, "-platforms", testPlatforms(), "-verify", sums, testVersion}
	if err := run(t.Context(), args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	want := strings.Count(string(read(t, sums)), "\n")
	if want < 8 || strings.Count(out.String(), ": the same\n") != want {
		t.Errorf("%d files\n%s", want, &out)
	}
}

func goEnv(t *testing.T, names ...string) map[string]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"env", "-json"}, names...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	if err := json.Unmarshal(out, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// TestVerifyNotices: checksums that are other ones, or of other files, are an error.
func TestVerifyNotices(t *testing.T) {
	files := []file{{name: "a", content: []byte("1")}, {name: "b", content: []byte("2")}}
	good := string(checksums(files).content)
	for name, c := range map[string]struct {
		text, says string
	}{
		"another sum":   {strings.Replace(good, "6b86b2", "6b86b3", 1), "a is another file"},
		"another file":  {good + strings.Repeat("0", 64) + "  c\n", "c is not made of this commit"},
		"no list":       {"hello\n", "no line of sha256sum"},
		"an empty list": {"", "names none"},
	} {
		path := filepath.Join(t.TempDir(), "sums")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := verify(path, files, io.Discard); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	path := filepath.Join(t.TempDir(), "sums")
	if err := os.WriteFile(path, []byte(good[:strings.Index(good, "\n")+1]), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := verify(path, files, &out); err != nil || !strings.Contains(out.String(), "1 files are the same") {
		t.Errorf("one file of two: %v\n%s", err, &out)
	}
}

// TestDirtyTree: changes that are in no commit are named, and nothing is built; with -dirty they are built, and every
// name says so.
func TestDirtyTree(t *testing.T) {
	repo, err := clone()
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "clone")
	if _, err := git(t.Context(), ".", "clone", "--quiet", repo, other); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "README.md"), []byte("changed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(other, "SECURITY.md")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "new.txt"), []byte("new\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = openSource(t.Context(), other, filepath.Join(t.TempDir(), "src"), testVersion, false)
	if err == nil || !strings.Contains(err.Error(), "README.md") || !strings.Contains(err.Error(), "?? new.txt") ||
		!strings.Contains(err.Error(), "DIRTY=1") {
		t.Fatalf("%v", err)
	}
	s, err := openSource(t.Context(), other, filepath.Join(t.TempDir(), "src"), testVersion, true)
	if err != nil || !s.dirty || string(read(t, filepath.Join(s.dir, "README.md"))) != "changed\n" ||
		string(read(t, filepath.Join(s.dir, "new.txt"))) != "new\n" {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "SECURITY.md")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the removed file: %v", err)
	}
	if _, err := openSource(t.Context(), t.TempDir(), filepath.Join(t.TempDir(), "src"), testVersion, false); err == nil ||
		!strings.Contains(err.Error(), "a release is made of a commit") {
		t.Errorf("without a repository: %v", err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1000000000")
	if s, err := openSource(t.Context(), repo, filepath.Join(t.TempDir(), "src"), testVersion, false); err != nil ||
		s.time.Unix() != 1000000000 {
		t.Errorf("with SOURCE_DATE_EPOCH: %+v, %v", s, err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "soon")
	if _, err := openSource(t.Context(), repo, filepath.Join(t.TempDir(), "src"), testVersion, false); err == nil ||
		!strings.Contains(err.Error(), `SOURCE_DATE_EPOCH "soon"`) {
		t.Errorf("with a wrong SOURCE_DATE_EPOCH: %v", err)
	}
}

// TestFiles: the release has all that it should have, and SHA256SUMS names it as sha256sum reads it.
func TestFiles(t *testing.T) {
	dir := released(t)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	sums := string(read(t, filepath.Join(dir, "SHA256SUMS")))
	found := map[string]bool{}
	for _, e := range entries {
		found[e.Name()] = true
		f := file{name: e.Name(), content: read(t, filepath.Join(dir, e.Name()))}
		if e.Name() != "SHA256SUMS" && !strings.Contains(sums, f.sum()+"  "+f.name+"\n") {
			t.Errorf("%s is not in SHA256SUMS", f.name)
		}
	}
	prefix := "leasehold-" + testVersion + "-"
	want := []string{"functions-source.zip", "image.tar", "sbom.cdx.json", "provenance.json"}
	for _, arch := range testArchitectures() {
		want = append(want, "lambda-"+arch+".zip")
	}
	for name := range strings.SplitSeq(testPlatforms(), ",") {
		suffix := ".tar.gz"
		if strings.HasPrefix(name, "windows/") {
			suffix = ".zip"
		}
		want = append(want, strings.ReplaceAll(name, "/", "-")+suffix)
	}
	for _, name := range want {
		if !found[prefix+name] {
			t.Errorf("%s is missing", prefix+name)
		}
	}
	if len(found) != len(want)+2 || !found["THIRD_PARTY_NOTICES.txt"] {
		t.Errorf("%v", slices.Sorted(maps.Keys(found)))
	}
}

// entry is a file of an archive.
type entry struct {
	content  []byte
	mode     fs.FileMode
	uid, gid int
	folder   bool
}

func untar(t *testing.T, content []byte) map[string]entry {
	t.Helper()
	entries, last := map[string]entry{}, ""
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return entries
		} else if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.Name <= last || h.Uname+h.Gname != "" || !h.AccessTime.IsZero() {
			t.Errorf("%s after %s, of %q %q", h.Name, last, h.Uname, h.Gname)
		}
		last = h.Name
		entries[h.Name] = entry{body, fs.FileMode(h.Mode), h.Uid, h.Gid, h.Typeflag == tar.TypeDir}
	}
}

func gunzip(t *testing.T, content []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	if r.Name != "" || !r.ModTime.IsZero() {
		t.Errorf("gzip has the name %q and the time %v", r.Name, r.ModTime)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// TestArchive: the download of this platform has a program that says what it is, a license, notices, scripts and pages.
func TestArchive(t *testing.T) {
	name := fmt.Sprintf("leasehold-%s-%s-%s", testVersion, runtime.GOOS, runtime.GOARCH)
	entries := untar(t, gunzip(t, read(t, filepath.Join(released(t), name+".tar.gz"))))
	for _, want := range []string{
		"leasehold", "LICENSE", "README.md", "CHANGELOG.md", "THIRD_PARTY_NOTICES.txt", "completions/leasehold.bash",
		"completions/_leasehold",
		"completions/leasehold.fish", "man/man1/leasehold.1", "man/man1/leasehold-lock-run.1",
	} {
		e, ok := entries[name+"/"+want]
		mode := fs.FileMode(0o644)
		if want == "leasehold" {
			mode = 0o755
		}
		if !ok || len(e.content) == 0 || e.mode != mode || e.uid != 0 || e.gid != 0 {
			t.Errorf("%s: %v, %d bytes, mode %o, user %d", want, ok, len(e.content), e.mode, e.uid)
		}
	}
	path := filepath.Join(t.TempDir(), "leasehold")
	if err := os.WriteFile(path, entries[name+"/leasehold"].content, 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), path, "version", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var says struct {
		Version, Commit, Date, Platform string
		Modified                        bool
	}
	if err := json.Unmarshal(out, &says); err != nil {
		t.Fatal(err)
	}
	repo, err := clone()
	if err != nil {
		t.Fatal(err)
	}
	commit, err := git(t.Context(), repo, "rev-parse", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	if says.Version != testVersion || says.Commit != commit || says.Date == "" || says.Modified ||
		says.Platform != runtime.GOOS+"/"+runtime.GOARCH {
		t.Errorf("%+v", says)
	}
}

// TestArchiveOfWindows: it is a zip with a program that Windows starts.
func TestArchiveOfWindows(t *testing.T) {
	for name := range strings.SplitSeq(testPlatforms(), ",") {
		arch, ok := strings.CutPrefix(name, "windows/")
		if !ok {
			continue
		}
		folder := "leasehold-" + testVersion + "-windows-" + arch
		content := read(t, filepath.Join(released(t), folder+".zip"))
		r, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		program, err := fs.ReadFile(r, folder+"/leasehold.exe")
		if err != nil || !bytes.HasPrefix(program, []byte("MZ")) {
			t.Errorf("%s: %v", name, err)
		}
		for _, want := range []string{"LICENSE", "THIRD_PARTY_NOTICES.txt", "completions/leasehold.bash",
			"man/man1/leasehold.1"} {
			if _, err := fs.Stat(r, folder+"/"+want); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestLambda: the zip has an executable with the name that the runtime starts, and the one that takes its place for
// queues, built with the tags of make lambda: what they leave out would be loaded at each cold start.
func TestLambda(t *testing.T) {
	tags := map[string]string{}
	named := regexp.MustCompile(`-o bin/lambda/(\w+) -tags ([a-z.,]+)`)
	for _, m := range named.FindAllSubmatch(read(t, "../Makefile"), -1) {
		tags[string(m[1])] = string(m[2])
	}
	if len(tags) != 2 || tags["bootstrap"] != tags["queues"]+",leasehold.noqueues" {
		t.Fatalf("make lambda builds %v", tags)
	}
	for _, arch := range testArchitectures() {
		content := read(t, filepath.Join(released(t), "leasehold-"+testVersion+"-lambda-"+arch+".zip"))
		r, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		for name, tags := range tags {
			info, err := fs.Stat(r, name)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode() != 0o755 {
				t.Errorf("%s for %s: %v", name, arch, info.Mode())
			}
			program, err := fs.ReadFile(r, name)
			if err != nil {
				t.Fatal(err)
			}
			built, err := buildinfo.Read(bytes.NewReader(program))
			if err != nil {
				t.Fatal(err)
			}
			if want := (debug.BuildSetting{Key: "-tags", Value: tags}); !slices.Contains(built.Settings, want) {
				t.Errorf("%s for %s: built with %v, make lambda has %v", name, arch, built.Settings, want)
			}
		}
		if len(r.File) != 4 || len(content) > 50<<20 {
			t.Errorf("%s: %d files, %d bytes; Lambda takes 50 MiB", arch, len(r.File), len(content))
		}
	}
}

// TestFunctionsSource: the builder of Cloud Functions gets all that the functions are built from: without tests and
// tools, go build and go mod tidy work in it.
func TestFunctionsSource(t *testing.T) {
	content := read(t, filepath.Join(released(t), "leasehold-"+testVersion+"-functions-source.zip"))
	r, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range r.File {
		if strings.HasSuffix(f.Name, "_test.go") || strings.HasPrefix(f.Name, "release/") ||
			strings.HasPrefix(f.Name, "tests/") {
			t.Errorf("%s is in it", f.Name)
		}
	}
	if err := os.CopyFS(dir, r); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"mod", "tidy"}, {"build", "."}} {
		c := exec.CommandContext(t.Context(), "go", args...)
		c.Dir = dir
		// Without paths, most of it is compiled already.
		c.Env = append(os.Environ(), "GOFLAGS=-mod=mod -trimpath", "GOWORK=off")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// image unpacks the layout and returns the index of the images.
func image(t *testing.T) containers.ImageIndex {
	t.Helper()
	dir := t.TempDir()
	for name, e := range untar(t, read(t, filepath.Join(released(t), "leasehold-"+testVersion+"-image.tar"))) {
		path := filepath.Join(dir, name)
		if e.folder {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, e.content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := imagelayout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	top, err := l.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	list, err := top.IndexManifest()
	if err != nil || len(list.Manifests) != 1 ||
		list.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != testVersion {
		t.Fatalf("%+v, %v", list, err)
	}
	index, err := top.ImageIndex(list.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

// TestImage: a library of others reads the layout, finds all digests right, and the settings that
// docs/guides/containers.md promises.
func TestImage(t *testing.T) {
	index := image(t)
	if err := validate.Index(index); err != nil {
		t.Fatal(err)
	}
	list, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, d := range list.Manifests {
		found = append(found, d.Platform.String())
		img, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		c := config.Config
		if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, entrypoint) || !slices.Equal(c.Cmd, command) ||
			!slices.Equal(c.Env, imageEnv) ||
			c.StopSignal != "SIGTERM" || len(c.ExposedPorts) != 1 || len(c.Volumes) != 0 {
			t.Errorf("%+v", c)
		}
		if h := c.Healthcheck; h == nil || !slices.Equal(h.Test, health.Test) || h.Interval != health.Interval ||
			h.Timeout >= h.Interval || h.Timeout <= 0 || h.StartPeriod <= 0 || h.Retries <= 0 {
			t.Errorf("the health check: %+v", h)
		}
		if config.Architecture != d.Platform.Architecture || config.Created.IsZero() || len(config.History) != 2 ||
			len(config.RootFS.DiffIDs) != 2 {
			t.Errorf("%+v", config)
		}
		for _, label := range []string{"title", "description", "version", "revision", "created", "source", "url",
			"documentation", "licenses", "vendor"} {
			name := "org.opencontainers.image." + label
			if c.Labels[name] == "" || c.Labels[name] != d.Annotations[name] && d.Annotations[name] != "" ||
				list.Annotations[name] != c.Labels[name] {
				t.Errorf("%s is %q", name, c.Labels[name])
			}
		}
		if c.Labels["org.opencontainers.image.version"] != testVersion {
			t.Errorf("%v", c.Labels)
		}
	}
	var want []string
	for _, arch := range testArchitectures() {
		want = append(want, map[string]string{"amd64": "linux/amd64", "arm64": "linux/arm64/v8"}[arch])
	}
	if slices.Sort(want); !slices.Equal(found, want) {
		t.Errorf("%v, want %v", found, want)
	}
}

// rootOf is the root folder of the image for a processor: its layers, one over the other.
func rootOf(t *testing.T, arch string) map[string]entry {
	t.Helper()
	index := image(t)
	list, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	root := map[string]entry{}
	for _, d := range list.Manifests {
		if d.Platform.Architecture != arch {
			continue
		}
		img, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		layers, err := img.Layers()
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range layers {
			r, err := l.Uncompressed()
			if err != nil {
				t.Fatal(err)
			}
			plain, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			maps.Copy(root, untar(t, plain))
		}
	}
	return root
}

// TestImageRoot: the image has the program, certificates, a user and folders, and nothing else; the Dockerfile gets the
// same.
func TestImageRoot(t *testing.T) {
	root := rootOf(t, runtime.GOARCH)
	want := []string{
		"data/", "etc/", "etc/group", "etc/passwd", "etc/ssl/", "etc/ssl/certs/", rootsFile, "tmp/", "usr/", "usr/bin/",
		"usr/bin/leasehold", "usr/share/",
		"usr/share/doc/", "usr/share/doc/leasehold/", "usr/share/doc/leasehold/LICENSE",
		"usr/share/doc/leasehold/THIRD_PARTY_NOTICES.txt",
	}
	if found := slices.Sorted(maps.Keys(root)); !slices.Equal(found, want) {
		t.Errorf("%v", found)
	}
	if d := root["data/"]; d.mode != 0o700 || d.uid != user || d.gid != user {
		t.Errorf("data: %+v", d)
	}
	certificates := 0
	for rest := root[rootsFile].content; ; certificates++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if c, err := x509.ParseCertificate(block.Bytes); err != nil || !c.IsCA {
			t.Errorf("%v", err)
		}
	}
	if certificates < 100 {
		t.Errorf("%d certificates", certificates)
	}

	repo, err := clone()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := run(t.Context(), []string{"-repo", repo, "-rootfs", dir, "-platforms", "linux/" + runtime.GOARCH,
		testVersion}, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	for name, e := range root {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		mode := e.mode & 0o777
		if e.mode&0o1000 != 0 {
			mode |= fs.ModeSticky
		}
		if got := info.Mode() &^ fs.ModeDir; got != mode {
			t.Errorf("%s: mode %v, in the release %v", name, got, mode)
		}
		if owner := info.Sys().(*syscall.Stat_t).Uid; os.Geteuid() == 0 && int(owner) != e.uid {
			t.Errorf("%s is of %d, in the release of %d", name, owner, e.uid)
		}
		// The notices are those of what is linked: the image of a release has the notices of all its programs.
		if !e.folder && !strings.HasSuffix(name, "NOTICES.txt") && !bytes.Equal(read(t, filepath.Join(dir, name)),
			e.content) {
			t.Errorf("%s differs", name)
		}
	}
}

// TestBillOfMaterials: it is valid by CycloneDX's own schema, and says of each program which modules it has.
func TestBillOfMaterials(t *testing.T) {
	dir := released(t)
	text := read(t, filepath.Join(dir, "leasehold-"+testVersion+"-sbom.cdx.json"))
	schemas, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}/schema",
		"github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	for _, name := range []string{"bom-1.6.schema.json", "spdx.schema.json", "jsf-0.82.schemax.json"} {
		content := read(t, filepath.Join(strings.TrimSpace(string(schemas)), name))
		schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource("http://cyclonedx.org/schema/"+strings.Replace(name, "schemax", "schema", 1),
			schema); err != nil {
			t.Fatal(err)
		}
	}
	compiler.AssertFormat()
	schema, err := compiler.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(instance); err != nil {
		t.Errorf("%v", err)
	}

	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	refs := map[string]cdx.Component{bom.Metadata.Component.BOMRef: *bom.Metadata.Component}
	for _, c := range *bom.Components {
		if _, twice := refs[c.BOMRef]; twice {
			t.Errorf("%s is there twice", c.BOMRef)
		}
		refs[c.BOMRef] = c
		if c.Type == cdx.ComponentTypeLibrary && (c.Licenses == nil || c.PackageURL == "" || c.Version == "") {
			t.Errorf("%+v", c)
		}
	}
	for _, d := range *bom.Dependencies {
		for _, on := range *d.Dependencies {
			if _, ok := refs[on]; !ok {
				t.Errorf("%s depends on %s, which is no component", d.Ref, on)
			}
		}
	}
	// The checksum of a program is that of the one in its archive.
	name := fmt.Sprintf("leasehold-%s-linux-amd64", testVersion)
	program := file{content: untar(t, gunzip(t, read(t, filepath.Join(dir, name+".tar.gz"))))[name+"/leasehold"].content}
	if c := refs["linux/amd64/leasehold"]; c.Hashes == nil || (*c.Hashes)[0].Value != program.sum() {
		t.Errorf("%+v, want %s", c, program.sum())
	}
	depends := map[string][]string{}
	for _, d := range *bom.Dependencies {
		depends[d.Ref] = *d.Dependencies
	}
	const firestore = "pkg:golang/cloud.google.com/go/firestore@"
	has := func(ref, prefix string) bool {
		return slices.ContainsFunc(depends[ref], func(d string) bool { return strings.HasPrefix(d, prefix) })
	}
	if !has("linux/amd64/leasehold", firestore) || has("linux/amd64/bootstrap", firestore) ||
		!has("linux/amd64/bootstrap", "pkg:golang/github.com/aws/aws-lambda-go@") {
		t.Errorf("%v", depends)
	}
}

// TestNotices: each module of the bill of materials has a license in the notices.
func TestNotices(t *testing.T) {
	dir := released(t)
	notices := string(read(t, filepath.Join(dir, "THIRD_PARTY_NOTICES.txt")))
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(read(t, filepath.Join(dir, "leasehold-"+testVersion+"-sbom.cdx.json"))),
		cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	for _, c := range *bom.Components {
		if c.Type != cdx.ComponentTypeLibrary {
			continue
		}
		name := c.Name + " " + c.Version
		if c.Name == standard {
			name = "the Go standard library and runtime go" + c.Version
		}
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` \(.+\)$`).MatchString(notices) {
			t.Errorf("%s has no text", name)
		}
	}
	if strings.Count(notices, "Version 2.0, January 2004") > 5 ||
		!strings.Contains(notices, "Copyright 2009 The Go Authors") {
		t.Error("texts are there more than once, or the one of Go is missing")
	}
}

// asksForMore is the JSON License, which is no free one for its last sentence before the disclaimer.
const asksForMore = `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the
"Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish, distribute,
sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

The Software shall be used for Good, not Evil.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS
IN THE SOFTWARE.
`

// TestLicensesAreRead: a module without a license, with one that is unknown, or with one that asks for more, stops the
// release.
func TestLicensesAreRead(t *testing.T) {
	apache := read(t, "../LICENSE")
	for name, c := range map[string]struct {
		files map[string]string
		says  string
	}{
		"Apache":      {map[string]string{"LICENSE": string(apache)}, ""},
		"none":        {map[string]string{"README.md": string(apache)}, "no license was recognized"},
		"source code": {map[string]string{"license.go": string(apache)}, "no license was recognized"},
		"unknown":     {map[string]string{"LICENSE": "You may do as we say.\n"}, "no license was recognized"},
		"in a folder": {map[string]string{"sub/LICENSE.txt": string(apache)}, ""},
		"elsewhere":   {map[string]string{"other/LICENSE.txt": string(apache)}, "no license was recognized"},
	} {
		dir := t.TempDir()
		m := &linked{path: "example.com/m", version: "v1.0.0", dir: dir, folders: []string{filepath.Join(dir, "sub")}}
		for _, folder := range []string{"sub", "other"} {
			if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for file, text := range c.files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.read(); (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) ||
			!strings.Contains(err.Error(), "example.com/m v1.0.0")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := &linked{path: "example.com/m", version: "v1.0.0", files: []file{{name: "COPYING", content: []byte(asksForMore)}}}
	if err := m.classify(); err == nil || !strings.Contains(err.Error(), "is not one of those that are accepted") {
		t.Errorf("%v", err)
	}
}

// TestSummary: with -json, scripts read what was made.
func TestSummary(t *testing.T) {
	b := &builder{label: "v1.0.0", goVersion: "go1.26.8",
		source: &source{commit: "4be5", time: time.Unix(1_800_000_000, 0).UTC()}}
	var out bytes.Buffer
	if err := b.summary([]file{{name: "a", content: []byte("1")}}).write(&out); err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(
		[]byte(`{"version":"v1.0.0","commit":"4be5","date":"2027-01-15T08:00:00Z","dirty":false,"go_version":"go1.26.8","signed":false,
		"files":[{"name":"a","size":1,"sha256":"6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"}]}`), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s", &out)
	}
}

// TestReplaceKeepsNothing: a folder of an earlier attempt is replaced as a whole.
func TestReplaceKeepsNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dist", "v1.0.0")
	for _, name := range []string{"old", "new"} {
		if err := replace(dir, []file{{name: name, content: []byte(name)}}); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 || entries[0].Name() != "new" {
		t.Errorf("%v, %v", entries, err)
	}
}
