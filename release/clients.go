package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// clientVersions compares the versions of the clients in other languages, in the repository at dir, with that of a
// release: they are published from its commit, and their users look up what they have in its changelog.
func clientVersions(dir string, v version) error {
	want := strings.TrimPrefix(string(v), "v")
	var manifest struct{ Version string }
	content, err := os.ReadFile(filepath.Join(dir, "sdk", "typescript", "package.json"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, &manifest); err != nil {
		return fmt.Errorf("sdk/typescript/package.json: %w", err)
	}
	var locked struct {
		Version  string
		Packages map[string]struct{ Version string }
	}
	if content, err = os.ReadFile(filepath.Join(dir, "sdk", "typescript", "package-lock.json")); err != nil {
		return err
	}
	if err := json.Unmarshal(content, &locked); err != nil {
		return fmt.Errorf("sdk/typescript/package-lock.json: %w", err)
	}
	if content, err = os.ReadFile(filepath.Join(dir, "sdk", "python", "pyproject.toml")); err != nil {
		return err
	}
	python := pythonVersions.FindSubmatch(content)
	if python == nil {
		return errors.New("sdk/python/pyproject.toml: there is no version")
	}
	var wrong []error
	for _, c := range []struct{ where, has, want string }{
		{"sdk/typescript/package.json", manifest.Version, want},
		{"sdk/typescript/package-lock.json", locked.Version, want},
		{`sdk/typescript/package-lock.json, packages[""]`, locked.Packages[""].Version, want},
		{"sdk/python/pyproject.toml", string(python[1]), pythonVersion(want)},
	} {
		if c.has != c.want {
			wrong = append(wrong, fmt.Errorf("%s has the version %q: the release %s needs %q there", c.where, c.has, v, c.want))
		}
	}
	return errors.Join(wrong...)
}

// pythonVersions finds the version of a pyproject.toml.
var pythonVersions = regexp.MustCompile(`(?m)^version = "([^"]*)"$`)

// preReleases are those that have a name in Python.
var preReleases = regexp.MustCompile(`^(alpha|beta|rc)\.?(\d+)$`)

// pythonVersion is a version as Python writes it (PEP 440): 1.2.3rc1 for 1.2.3-rc.1. A pre-release that has no name
// there is left out.
func pythonVersion(v string) string {
	core, pre, _ := strings.Cut(v, "-")
	if m := preReleases.FindStringSubmatch(pre); m != nil {
		return core + map[string]string{"alpha": "a", "beta": "b", "rc": "rc"}[m[1]] + m[2]
	}
	return core
}
