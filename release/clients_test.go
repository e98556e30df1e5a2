package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// clients writes the files of the clients that have versions.
func clients(dir, npm, lock, python string) error {
	for name, content := range map[string]string{
		"sdk/typescript/package.json":      `{"name": "leasehold", "version": "` + npm + `"}`,
		"sdk/typescript/package-lock.json": `{"version": "` + lock + `", "packages": {"": {"version": "` + npm + `"}}}`,
		"sdk/python/pyproject.toml":        "[project]\nname = \"leasehold\"\nversion = \"" + python + "\"\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// setVersions gives the clients of a repository the version of a release.
func setVersions(dir string, v version) error {
	npm := strings.TrimPrefix(string(v), "v")
	for name, with := range map[string]string{
		"typescript/package.json": `"version": "` + npm + `"`, "typescript/package-lock.json": `"version": "` + npm + `"`,
		"python/pyproject.toml":            `version = "` + pythonVersion(npm) + `"`,
		"python/src/leasehold/__init__.py": `version__ = "` + pythonVersion(npm) + `"`,
	} {
		path := filepath.Join(dir, "sdk", filepath.FromSlash(name))
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		key, _, _ := strings.Cut(with, ` "`)
		found := regexp.MustCompile(regexp.QuoteMeta(key) + ` "[^"]*"`)
		n := 1 // of the lock file's versions the first two are the package's own
		if strings.Contains(name, "lock") {
			n = 2
		}
		text := found.ReplaceAllStringFunc(string(content), func(old string) string {
			if n--; n < 0 {
				return old
			}
			return with
		})
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// TestClientVersions: a release whose clients have another version is refused, with the file that has it.
func TestClientVersions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		release           version
		npm, lock, python string
		says              []string // nothing is fine
	}{
		"the same":          {"v1.2.3", "1.2.3", "1.2.3", "1.2.3", nil},
		"a candidate":       {"v1.2.3-rc.1", "1.2.3-rc.1", "1.2.3-rc.1", "1.2.3rc1", nil},
		"a beta":            {"v1.2.3-beta.2", "1.2.3-beta.2", "1.2.3-beta.2", "1.2.3b2", nil},
		"no such in Python": {"v1.2.3-test.1", "1.2.3-test.1", "1.2.3-test.1", "1.2.3", nil},
		"TypeScript": {"v1.2.3", "1.2.2", "1.2.3", "1.2.3", []string{`package.json has the version "1.2.2"`,
			`packages[""]`}},
		"the lock": {"v1.2.3", "1.2.3", "1.2.2", "1.2.3", []string{`package-lock.json has the version "1.2.2"`}},
		"Python": {"v1.2.3", "1.2.3", "1.2.3", "0.1.0", []string{`pyproject.toml has the version "0.1.0"`,
			`"1.2.3"`}},
		"a candidate of it": {"v1.2.3", "1.2.3", "1.2.3", "1.2.3rc1", []string{`pyproject.toml has the version "1.2.3rc1"`}},
		"none":              {"v1.2.3", "1.2.3", "1.2.3", "\" # \"", []string{"there is no version"}},
	} {
		dir := t.TempDir()
		if err := clients(dir, c.npm, c.lock, c.python); err != nil {
			t.Fatal(err)
		}
		err := clientVersions(dir, c.release)
		if (err == nil) != (c.says == nil) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, says := range c.says {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want %q", name, err, says)
			}
		}
	}
	if err := clientVersions(t.TempDir(), "v1.2.3"); err == nil {
		t.Error("a repository without clients is fine")
	}
	// Those of this repository can be read, and agree with each other.
	if err := clientVersions("..", "v0.1.0"); err != nil {
		t.Log(err) // between a release and the next they may have any version, but one
		if strings.Count(err.Error(), "needs") != 4 {
			t.Error("the clients have different versions")
		}
	}
}

// TestReleaseComparesClients: nothing is built for a release whose clients have another version.
func TestReleaseComparesClients(t *testing.T) {
	t.Parallel()
	dir, err := clone()
	if err != nil {
		t.Fatal(err)
	}
	b := &builder{order: &order{version: "v0.9.2", platforms: platforms[:1]}, source: &source{dir: dir}}
	if _, err := b.release(t.Context()); err == nil || !strings.Contains(err.Error(), "needs \"0.9.2\"") {
		t.Errorf("%v", err)
	}
}
