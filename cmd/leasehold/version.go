package main

import "github.com/leasehold-dev/leasehold/internal/buildinfo"

type versionCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// version is set by release builds with -ldflags "-X main.version=v1.2.3".
var version string

// Run prints the version.
func (c versionCmd) Run(s *streams) error {
	b := buildinfo.This(version)
	return show(s, c.JSON, b, "leasehold %s\n", b)
}
