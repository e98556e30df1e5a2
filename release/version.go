package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// version is the version of a release, as Go writes those of modules: v1.2.3, v1.2.3-rc.1. Empty: that of no release.
type version string

// versions are Semantic Versioning 2.0.0 with a v in front and without build metadata, which neither tags of modules
// nor those of images can have.
var versions = regexp.MustCompile(
	`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?$`)

var leadingZero = regexp.MustCompile(`^0[0-9]+$`)

func parseVersion(text string) (version, error) {
	const want = "want a version such as v1.2.3 or v1.2.3-rc.1"
	if text == "" {
		return "", fmt.Errorf("VERSION is missing: %s: make release VERSION=v1.2.3", want)
	}
	m := versions.FindStringSubmatch(text)
	switch {
	case m == nil && strings.Contains(text, "+"):
		return "", fmt.Errorf("VERSION %q: %s, without build metadata, which tags cannot have", text, want)
	case m == nil && versions.MatchString("v"+text):
		return "", fmt.Errorf("VERSION %q: %s, with a v: v%s", text, want, text)
	case m == nil || slices.ContainsFunc(strings.Split(m[4], "."), leadingZero.MatchString):
		return "", fmt.Errorf("VERSION %q: %s", text, want)
	case m[1] != "0" && m[1] != "1":
		// Go finds no v2.0.0 of a module whose path does not end with /v2, and a build of it would not know its version.
		return "", fmt.Errorf("VERSION %q: the path of the module in go.mod needs the suffix /v%s first", text, m[1])
	}
	return version(text), nil
}

// platform is an operating system with a processor, as Go names them.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// platforms are those of the command line.
var platforms = []platform{
	{"linux", "amd64"},
	{"linux", "arm64"},
	{"darwin", "amd64"},
	{"darwin", "arm64"},
	{"windows", "amd64"},
	{"windows", "arm64"},
}

func namesOf(list []platform) []string {
	var names []string
	for _, p := range list {
		names = append(names, p.String())
	}
	return names
}

func parsePlatforms(text string) ([]platform, error) {
	var list []platform
	for name := range strings.SplitSeq(text, ",") {
		i := slices.Index(namesOf(platforms), name)
		if i < 0 {
			return nil, fmt.Errorf("-platforms: %q is none of %s", name, strings.Join(namesOf(platforms), ", "))
		}
		if slices.Contains(list, platforms[i]) {
			return nil, fmt.Errorf("-platforms: %s is there twice", name)
		}
		list = append(list, platforms[i])
	}
	return list, nil
}
