package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// reference is what the documentation says of one command, made from the table from which the command line is parsed,
// so that help, manual pages and docs/reference/cli.md say the same.
type reference struct {
	words    []string // of the command, with "leasehold" in front
	usage    string
	help     string
	detail   []passage
	args     []entry
	flags    []entry      // of the command
	parent   []string     // the words of the command above whose flags it takes too; nil if that has none
	settings bool         // it also takes the settings of docs/reference/settings.md
	commands []*reference // below it
}

// entry is an argument or a flag.
type entry struct{ name, help string }

// passage is a paragraph, or lines to be shown as they are.
type passage struct {
	lines []string
	asIs  bool
}

// name is the command as it is typed.
func (r *reference) name() string { return strings.Join(r.words, " ") }

// describe makes the reference of a command and of those below it.
func describe(n *kong.Node, above []string) *reference {
	r := &reference{
		words: append(slices.Clone(above), n.Name), usage: strings.TrimSpace(n.Summary()),
		help: n.Help, detail: passages(n.Detail),
	}
	if n.Type == kong.ApplicationNode {
		paragraphs := passages(n.Help)
		r.usage, r.help, r.detail = "leasehold <command>", strings.Join(paragraphs[0].lines, " "), paragraphs[1:]
	} else {
		r.usage = "leasehold " + r.usage
	}
	for _, p := range n.Positional {
		r.args = append(r.args, entry{p.Summary(), p.Help})
	}
	for _, f := range n.Flags {
		switch {
		case f.Hidden || f.Name == "help":
		case f.Group != nil: // a setting
			r.settings = true
		default:
			r.flags = append(r.flags, entry{f.String(), f.Help})
		}
	}
	if p := n.Parent; p != nil && p.Type != kong.ApplicationNode && slices.ContainsFunc(
		p.Flags, func(f *kong.Flag) bool { return !f.Hidden }) {
		r.parent = above
	}
	for _, child := range n.Children {
		if !child.Hidden {
			r.commands = append(r.commands, describe(child, r.words))
		}
	}
	return r
}

// all lists the command and all below it.
func (r *reference) all() []*reference {
	list := []*reference{r}
	for _, c := range r.commands {
		list = append(list, c.all()...)
	}
	return list
}

// passages are the parts of a help text: paragraphs, and lines that are indented.
func passages(text string) []passage {
	var all []passage
	open := false // the last passage may go on
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		asIs := strings.HasPrefix(line, "  ")
		last := len(all) - 1
		switch {
		case line == "":
			open = false
		case open && all[last].asIs == asIs:
			all[last].lines = append(all[last].lines, line)
		default:
			all, open = append(all, passage{[]string{line}, asIs}), true
		}
	}
	for _, p := range all {
		if !p.asIs {
			continue
		}
		indent := len(p.lines[0]) - len(strings.TrimLeft(p.lines[0], " "))
		for i, line := range p.lines {
			p.lines[i] = strings.TrimPrefix(line, strings.Repeat(" ", indent))
		}
	}
	return all
}

// markdown is the reference of the commands below the program for docs/reference/cli.md. What several commands have in
// common it says once: flags with the same text, and exit codes, which the page explains.
func markdown(program *reference) string {
	var b strings.Builder
	commands := program.all()[1:]
	uses := map[entry]int{}
	for _, r := range commands {
		for _, e := range r.flags {
			uses[e]++
		}
	}
	most := map[string]entry{} // of the texts of a flag the one that most commands have
	for _, r := range commands {
		for _, e := range r.flags {
			if uses[e] > uses[most[e.flag()]] {
				most[e.flag()] = e
			}
		}
	}
	common := func(e entry) bool { return uses[e] > 1 && most[e.flag()] == e }
	var shared []entry
	for _, r := range commands {
		for _, e := range r.flags {
			if common(e) && !slices.Contains(shared, e) {
				shared = append(shared, e)
			}
		}
	}
	slices.SortStableFunc(shared, func(x, y entry) int { return strings.Compare(x.flag(), y.flag()) })
	b.WriteString("\n### Common flags\n\nCommands name those of these that they take.\n")
	writeEntries(&b, shared)
	for _, r := range commands {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n```text\n%s\n```\n", r.name(), escaped(r.help), r.usage)
		exits := false // the last passage was about exit codes
		for _, p := range r.detail {
			if exits = strings.HasPrefix(p.lines[0], "Exit code") || exits && p.asIs; exits {
				continue
			}
			if p.asIs {
				fmt.Fprintf(&b, "\n```text\n%s\n```\n", strings.Join(p.lines, "\n"))
			} else {
				fmt.Fprintf(&b, "\n%s\n", escaped(strings.Join(p.lines, " ")))
			}
		}
		writeEntries(&b, slices.DeleteFunc(slices.Concat(r.args, r.flags), common))
		var also []string
		for _, e := range r.flags {
			if common(e) {
				also = append(also, "`"+e.flag()+"`")
			}
		}
		if r.parent != nil {
			also = append(also, fmt.Sprintf("those of [%s](#%s)", strings.Join(r.parent, " "), strings.Join(r.parent, "-")))
		}
		if r.settings {
			also = append(also, "[settings](settings.md) as flags")
		}
		if also != nil {
			fmt.Fprintf(&b, "\n[Also](#common-flags): %s.\n", strings.Join(also, ", "))
		}
	}
	return b.String()
}

// flag is the name of a flag, without its value and its short form.
func (e entry) flag() string {
	name := e.name[strings.LastIndex(e.name, " ")+1:]
	if i := strings.Index(e.name, "--"); i >= 0 {
		name = e.name[i:]
	}
	name, _, _ = strings.Cut(name, "=")
	return name
}

// writeEntries writes a table of arguments and flags, if there are any.
func writeEntries(b *strings.Builder, all []entry) {
	if len(all) > 0 {
		b.WriteString("\n| argument or flag | meaning |\n| --- | --- |\n")
	}
	for _, e := range all {
		fmt.Fprintf(b, "| `%s` | %s |\n", strings.ReplaceAll(e.name, "|", `\|`), escaped(e.help))
	}
}

// escaped is text that Markdown shows as it is.
func escaped(text string) string {
	return strings.NewReplacer("|", `\|`, "<", `\<`, "*", `\*`).Replace(text)
}
