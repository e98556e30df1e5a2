package settings

import (
	"fmt"
	"slices"
	"strings"
)

// Markdown is the documentation of all settings, docs/reference/settings.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`# Settings

<!-- Generated from functions/settings. To write it again: go test ./functions/settings -run TestDocumentation -update -->

Every entry point reads its settings from environment variables. ` + "`leasehold serve`, `worker`, `store` and `lock run`" + ` take them as flags too: the
name of the flag is that of the variable without ` + "`LEASEHOLD_`" + `, in lower case with dashes. A flag wins over its variable. Secrets have no flag,
because other users of a machine can read command lines.

- An empty variable counts as not set. Where that would turn a check of callers off, an empty value is an error.
- A variable that begins with ` + "`LEASEHOLD_`" + ` and is not known is an error at the start, which names a setting with a similar name if there is one.
- A setting that is there twice in two spellings, such as ` + "`leasehold_tenant_rate` beside `LEASEHOLD_TENANT_RATE`" + `, is an error, at the start and in the plan of a
  module. **In Terraform, the same name twice in one map is none**: of two equal keys HCL takes the last, before a module or ` + "`terraform validate`" + ` sees
  them. Let a linter or a review find those.
- A duration is a number with a unit: ` + "`300ms`, `30s`, `5m`, `2h`" + `. A list is separated by commas. A switch is ` + "`true` or `false`" + `.

*Taken by* has commands of ` + "`leasehold`" + `, then Cloud Functions (API, Tasks, Sweep), then handlers of Lambda. Those in **bold** require the setting.
`)
	var group string
	for _, s := range Table {
		if s.Group != group {
			group = s.Group
			fmt.Fprintf(&b, "\n## %s\n\n| variable | value | default | taken by | meaning |\n|---|---|---|---|---|\n", group)
		}
		b.WriteString(s.markdown())
	}
	b.WriteString("\n## Rules between settings\n\n" +
		"A setting of a store that `LEASEHOLD_STORE` does not choose is an error: it would have no effect.\n\n" +
		"| if one of these is set | | this | in | because |\n|---|---|---|---|---|\n")
	for _, r := range Rules {
		relation, other := "needs", r.Needs
		if r.NotWith != "" {
			relation, other = "excludes", r.NotWith
		}
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s | %s |\n",
			strings.Join(r.If, "`, `"), relation, other, namesOf(func(e Entry) bool { return r.Entries.Has(e) }, nil),
			documented(r.Why))
	}
	b.WriteString("\n## Variables of platforms and SDKs\n\n| variable | meaning |\n|---|---|\n")
	for _, v := range PlatformVariables {
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(v.Name, ", ", "`, `"), v.Help)
	}
	b.WriteString(
		"\n## Variables of the commands that call a server\n\nEntry points do not read them. The commands reject unknown variables too, and an empty one counts as not set.\n\n| variable | meaning |\n|---|---|\n")
	for _, v := range ClientVariables {
		fmt.Fprintf(&b, "| `%s` | %s |\n", v.Name, v.Help)
	}
	return b.String()
}

// markdown is the setting's row of its group's table.
func (s Setting) markdown() string {
	kind, defaults := string(s.Type), []string{}
	switch {
	case s.Choices != nil:
		kind = "`" + strings.Join(s.Choices, "`, `") + "`"
		if s.Type == List {
			kind = "list of " + kind
		}
	case s.Secret:
		kind = "secret"
	case s.bounds() != "":
		kind += ", " + s.bounds()
	}
	if s.Default != "" {
		defaults = append(defaults, "`"+s.Default+"`")
	}
	for _, v := range s.Variants {
		if v.Help != "" {
			continue // the setting means something else there
		}
		defaults = append(defaults, strings.Join(v.Entries.Names(), ", ")+" `"+v.Default+"`")
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", s.Env, kind, strings.Join(defaults, ", "),
		s.takenBy(), s.document())
}

// takenBy names the entry points that take the setting, in bold those that require it.
func (s Setting) takenBy() string {
	return namesOf(func(e Entry) bool { return s.Entries.Has(e) }, func(e Entry) bool { return s.Required.Has(e) })
}

// namesOf names the entry points of a set, in the three kinds that there are, as the page introduces them; bold may be
// nil.
func namesOf(in, bold func(Entry) bool) string {
	var kinds []string
	for _, k := range []struct {
		entries       Entry
		prefix, shown string
	}{{commands, "leasehold ", ""}, {functions, "Cloud Function ", ""}, {lambdas, "Lambda ", "Lambda "}} {
		var names []string
		for _, p := range Entries {
			if !k.entries.Has(p.Entry) || !in(p.Entry) {
				continue
			}
			name := strings.TrimPrefix(p.Name, k.prefix)
			if bold != nil && bold(p.Entry) {
				name = "**" + name + "**"
			}
			names = append(names, name)
		}
		if names != nil {
			kinds = append(kinds, k.shown+strings.Join(names, ", "))
		}
	}
	return strings.Join(kinds, "; ")
}

// bounds says which numbers and durations are allowed.
func (s Setting) bounds() string {
	if s.Type != Duration && s.Type != Number {
		return ""
	}
	var parts []string
	if s.Min != "" {
		parts = append(parts, "≥ "+s.Min)
	} else {
		parts = append(parts, "> 0")
	}
	if s.Max != "" {
		parts = append(parts, "≤ "+s.Max)
	}
	if i := slices.IndexFunc(s.Variants, func(v Variant) bool { return v.Max != s.Max }); i >= 0 {
		parts[len(parts)-1] += " (" + strings.Join(s.Variants[i].Entries.Names(), ", ") + ": no limit)"
	}
	if s.Step == "1s" {
		parts = append(parts, "whole seconds")
	}
	if s.Off {
		parts = append(parts, "or `off`")
	}
	return strings.Join(parts, ", ")
}

func (s Setting) document() string {
	text := documented(s.Help)
	if s.More != "" {
		text += " " + documented(s.More)
	}
	return text
}

func documented(text string) string {
	return expand(text, func(env string) string { return "`" + env + "`" })
}
