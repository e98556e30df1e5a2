// Package buildinfo says which build of Leasehold a program is.
package buildinfo

import (
	"runtime"
	"runtime/debug"
)

// Info is what is known of a program.
type Info struct {
	// of the release or of the module; "development build" if there is neither
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`     // that it was built from
	Date     string `json:"date,omitempty"`       // of the commit, RFC 3339
	Modified bool   `json:"modified,omitempty"`   // the sources were not those of the commit
	Go       string `json:"go_version,omitempty"` // of the compiler
	Platform string `json:"platform"`             // operating system and processor
}

// This is this program. released is the version of a release, if the program was built with one; empty for what the Go
// command recorded.
func This(released string) Info {
	info, _ := debug.ReadBuildInfo()
	return of(info, released)
}

// of reads what the Go command recorded, which is nothing of a commit where it was told so or found no repository.
func of(info *debug.BuildInfo, released string) Info {
	b := Info{Version: released, Platform: runtime.GOOS + "/" + runtime.GOARCH}
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
func (b Info) String() string {
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
