package main

import (
	_ "embed"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is the longer help of the command.
func (completionCmd) Help() string {
	return `For the current shell, or in its start-up file:

  source <(leasehold completion bash)
  source <(leasehold completion zsh)
  leasehold completion fish | source`
}

// The scripts ask the command for what may follow, so that they never differ from it.
var (
	//go:embed completion.bash
	completionBash string
	//go:embed completion.zsh
	completionZsh string
	//go:embed completion.fish
	completionFish string
)

// Run prints the script.
func (c completionCmd) Run(s *streams) error {
	script := map[string]string{"bash": completionBash, "zsh": completionZsh, "fish": completionFish}[c.Shell]
	_, err := io.WriteString(s.out, script)
	return err
}

// completeCommand is the word by which the scripts ask; the words of the command line follow, the last one unfinished.
const completeCommand = "__complete"

// complete prints what may stand in place of the last word, one a line, each with its help after a tab. Nothing means a
// file name.
func complete(app *kong.Application, words []string, out io.Writer) {
	words = joinValues(words)
	if len(words) == 0 {
		return
	}
	last := words[len(words)-1]
	node, flags, pending := follow(app, words[:len(words)-1])
	offer := func(word, help string) {
		help, _, _ = strings.Cut(help, "\n")
		if strings.HasPrefix(word, last) {
			fmt.Fprintf(out, "%s\t%s\n", word, help)
		}
	}
	name, _, joined := strings.Cut(last, "=")
	switch {
	case pending != nil:
		for _, v := range values(pending) {
			offer(v, "")
		}
	case joined && flags[name] != nil:
		for _, v := range values(flags[name]) {
			offer(name+"="+v, "")
		}
	case strings.HasPrefix(last, "-"):
		for _, group := range node.AllFlags(true) {
			for _, f := range group {
				offer("--"+f.Name, f.Help)
			}
		}
	default:
		for _, child := range node.Children {
			if !child.Hidden {
				offer(child.Name, child.Help)
			}
		}
		for _, p := range node.Positional {
			for _, v := range values(p) {
				offer(v, "")
			}
		}
	}
}

// follow walks the command table along words. It returns where they lead, the flags that are known there, and the flag
// whose value comes next, if any.
func follow(app *kong.Application, words []string) (node *kong.Node, flags map[string]*kong.Value,
	pending *kong.Value) {
	node, flags = app.Node, map[string]*kong.Value{}
	enter := func(n *kong.Node) {
		node = n
		for _, f := range n.Flags {
			flags["--"+f.Name] = f.Value
			if f.Short != 0 {
				flags["-"+string(f.Short)] = f.Value
			}
		}
	}
	enter(app.Node)
	for _, w := range words {
		flag := flags[w]
		child := childOf(node, w)
		switch {
		case pending != nil:
			pending = nil
		case flag != nil && !flag.IsBool():
			pending = flag
		case child != nil:
			enter(child)
		case beforeCommand[w]:
			pending = &kong.Value{Tag: &kong.Tag{}} // a flag before the command, whose value is free
		}
	}
	return node, flags, pending
}

func childOf(node *kong.Node, word string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == word {
			return child
		}
	}
	return nil
}

// values are the values that a flag or an argument can have, as far as they are listed.
func values(v *kong.Value) []string {
	switch {
	case v.Enum != "":
		return strings.Split(v.Enum, ",")
	case v.Tag != nil && v.Tag.Get("complete") != "": // there may be others
		return strings.Split(v.Tag.Get("complete"), ",")
	case v.Tag != nil && strings.Contains(v.Tag.PlaceHolder, "|"):
		return strings.Split(v.Tag.PlaceHolder, "|")
	case v.IsBool() && v.Flag != nil:
		return []string{"true", "false"}
	}
	return nil
}

// joinValues joins "--flag", "=", "value", as bash splits them, to "--flag", "value".
func joinValues(words []string) []string {
	var joined []string
	for i, w := range words {
		if w == "=" && i > 0 && strings.HasPrefix(words[i-1], "--") {
			if i == len(words)-1 {
				joined = append(joined, "")
			}
			continue
		}
		joined = append(joined, w)
	}
	return joined
}
