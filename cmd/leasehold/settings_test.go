package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/leasehold-dev/leasehold/functions/settings"
)

// TestVariablesAreKnown: every variable of a flag is in the table of settings, so that entry points do not take it for
// a misspelling, and serve and worker have a flag for each of their settings.
func TestVariablesAreKnown(t *testing.T) {
	c := newCLI()
	parser, err := kong.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	flags := map[string][]string{} // by command
	err = kong.Visit(parser.Model.Node, func(v kong.Visitable, next kong.Next) error {
		if n, ok := v.(*kong.Node); ok {
			for _, f := range n.Flags {
				flags[n.Name] = append(flags[n.Name], f.Name)
				for _, env := range f.Envs {
					known := slices.ContainsFunc(settings.ClientVariables, func(v settings.Variable) bool { return v.Name == env })
					if _, ok := settings.Find(env); !known && !ok {
						t.Errorf("%s --%s: add %s to settings.ClientVariables", n.Name, f.Name, env)
					}
				}
			}
		}
		return next(nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, entry := range map[string]settings.Entry{"serve": settings.Serve, "worker": settings.Worker} {
		for _, s := range settings.Of(entry) {
			if s.Flag() != "" && !slices.Contains(flags[name], s.Flag()) {
				t.Errorf("%s has no flag --%s", name, s.Flag())
			}
		}
	}
}

// TestServeHelp: the help names each variable and each default.
func TestServeHelp(t *testing.T) {
	var out, errs strings.Builder
	if code := run(t.Context(), []string{"serve", "--help"}, &out, &errs); code != exitOK {
		t.Fatalf("%d %s", code, errs.String())
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, s := range settings.Of(settings.Serve) {
		if s.Flag() != "" && !strings.Contains(text, strings.Join(strings.Fields(s.FlagHelp(settings.Serve)), " ")) {
			t.Errorf("no help of --%s", s.Flag())
		}
	}
}
