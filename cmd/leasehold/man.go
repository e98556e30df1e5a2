package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type manCmd struct {
	Command []string `arg:"" optional:"" help:"The command; without it the page of leasehold, which lists all."`
	Dir     string   `type:"path" placeholder:"DIR" help:"Write the pages of all commands into this folder instead, which is made if it is missing."`
}

// Help is the longer help of the command.
func (manCmd) Help() string {
	return `A page has what the command's --help says. To read one, and to install all:

  leasehold man lock run | man -l -
  leasehold man --dir ~/.local/share/man/man1

Then "man leasehold-lock-run" works, too.`
}

// Run prints a page, or writes all.
func (c manCmd) Run(app *kong.Context, s *streams) error {
	program := describe(app.Model.Node, nil)
	if c.Dir == "" {
		r := program
		for _, word := range c.Command {
			i := slices.IndexFunc(r.commands, func(sub *reference) bool {
				return sub.words[len(sub.words)-1] == word
			})
			if i < 0 {
				return usage("%s has no command %s", r.name(), word)
			}
			r = r.commands[i]
		}
		_, err := io.WriteString(s.out, r.roff())
		return err
	}
	if len(c.Command) > 0 {
		return usage("--dir writes the pages of all commands: name no command")
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil { //nolint:gosec // documentation, for every user
		return err
	}
	all := program.all()
	for _, r := range all {
		//nolint:gosec // as above
		if err := os.WriteFile(filepath.Join(c.Dir, r.page()+".1"), []byte(r.roff()), 0o644); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(s.out, "wrote %d pages into %s\n", len(all), c.Dir)
	return err
}

// page is the name of the command's manual page.
func (r *reference) page() string { return strings.Join(r.words, "-") }

// roff is the manual page, in the macros of man(7).
func (r *reference) roff() string {
	var b strings.Builder
	line := func(macro string, texts ...string) {
		b.WriteString("." + macro)
		for _, t := range texts {
			b.WriteString(` "` + strings.ReplaceAll(roffText(t), `"`, `\(dq`) + `"`)
		}
		b.WriteString("\n")
	}
	paragraph := func(text string) { b.WriteString(roffLine(text) + "\n") }

	line("TH", strings.ToUpper(r.page()), "1", "", "Leasehold", "Leasehold Manual")
	line("SH", "NAME")
	paragraph(r.page() + " - " + strings.TrimSuffix(r.help, "."))
	line("SH", "SYNOPSIS")
	line("B", r.usage)
	line("SH", "DESCRIPTION")
	paragraph(r.help)
	for _, p := range r.detail {
		line("PP")
		if !p.asIs {
			paragraph(strings.Join(p.lines, " "))
			continue
		}
		line("RS", "4")
		line("nf")
		for _, l := range p.lines {
			paragraph(l)
		}
		line("fi")
		line("RE")
	}
	list := func(title string, entries []entry) {
		if len(entries) == 0 {
			return
		}
		line("SH", title)
		for _, e := range entries {
			line("TP")
			line("B", e.name)
			paragraph(e.help)
		}
	}
	list("ARGUMENTS", r.args)
	list("OPTIONS", r.flags)
	if r.parent != nil {
		line("PP")
		paragraph("The options of " + strings.Join(r.parent, "-") + "(1) are options of this command, too.")
	}
	if r.settings {
		line("PP")
		paragraph("Settings are options, too: \"" + r.name() + " --help\" lists them.")
	}
	var commands []entry
	also := []string{}
	if len(r.words) > 1 {
		also = append(also, strings.Join(r.words[:len(r.words)-1], "-")+"(1)")
	}
	for _, c := range r.commands {
		commands = append(commands, entry{c.name(), c.help})
		also = append(also, c.page()+"(1)")
	}
	list("COMMANDS", commands)
	line("SH", "SEE ALSO")
	paragraph(strings.Join(also, ", "))
	return b.String()
}

// roffLine is a line of text, which begins with no control character.
func roffLine(text string) string {
	text = roffText(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + text
	}
	return text
}

// roffText is text with what means something to roff escaped, in ASCII.
func roffText(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`) // a hyphen that can be copied
		case r == '\'':
			b.WriteString(`\(aq`)
		case r > '~':
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
