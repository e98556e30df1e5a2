package main

import (
	"runtime"
	"runtime/debug"
)

type versionCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// version is set by release builds with -ldflags "-X main.version=v1.2.3".
var version string

// build is what is known of this program.
type build struct {
	Version  string `json:"version"`              // of the release or of the module; "development build" if there is neither
	Commit   string `json:"commit,omitempty"`     // that it was built from
	Date     string `json:"date,omitempty"`       // of the commit, RFC 3339
	Modified bool   `json:"modified,omitempty"`   // the sources were not those of the commit
	Go       string `json:"go_version,omitempty"` // of the compiler
	Platform string `json:"platform"`             // operating system and processor
}

// thisBuild reads what the Go command recorded, which is nothing of a commit where it was told so or found no repository.
func thisBuild(info *debug.BuildInfo, released string) build {
	b := build{Version: released, Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info != nil {
		b.Go = info.GoVersion
		if b.Version == "" {
			b.Version = info.Main.Version
		}
		for _, set := range info.Settings {
			switch set.Key {
			case "vcs.revision":
				b.Commit = set.Value
			case "vcs.time":
				b.Date = set.Value
			case "vcs.modified":
				b.Modified = set.Value == "true"
			}
		}
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "development build"
	}
	return b
}

// String is the build in one line.
func (b build) String() string {
	text := b.Version
	if b.Commit != "" {
		text += ", commit " + b.Commit
		if b.Modified {
			text += " with changes"
		}
	}
	if b.Date != "" {
		text += " of " + b.Date
	}
	if b.Go != "" {
		text += ", " + b.Go
	}
	return text + ", " + b.Platform
}

// Run prints the version.
func (c versionCmd) Run(s *streams) error {
	info, _ := debug.ReadBuildInfo()
	b := thisBuild(info, version)
	return show(s, c.JSON, b, "leasehold %s\n", b)
}
