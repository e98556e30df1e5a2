package main

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// beforeCommand are the flags that may also stand before the command, and whether a value follows.
var beforeCommand = map[string]bool{"--server": true, "--tenant": true, "--auth-token-file": true, "--output": true,
	"-o": true, "--json": false}

// arrange turns other ways to say something into the one that the parser knows: no arguments and "help" ask for help,
// "--version" is the command version, and flags before the command move behind it.
func arrange(args []string) []string {
	var moved []string
	for len(args) > 0 {
		name, _, joined := strings.Cut(args[0], "=")
		valued, ok := beforeCommand[name]
		n := 1
		if valued && !joined {
			n = 2
		}
		if !ok || len(args) < n {
			break
		}
		moved, args = append(moved, args[:n]...), args[n:]
	}
	switch {
	case len(args) == 0 && moved == nil:
		return []string{"--help"}
	case len(args) > 0 && args[0] == "help":
		args = append(slices.Clone(args[1:]), "--help")
	case len(args) > 0 && args[0] == "--version":
		args = append([]string{"version"}, args[1:]...)
	}
	end := slices.Index(args, "--") // what follows is another program's
	if end < 0 {
		end = len(args)
	}
	return markDashes(slices.Insert(slices.Clone(args), end, moved...))
}

// wantsJSON reports whether the arguments ask for JSON.
func wantsJSON(args []string) bool {
	for i, a := range args {
		switch a {
		case "--":
			return false
		case "--json", "--json=true", "--output=json", "-ojson", "-o=json":
			return true
		case "json":
			if i > 0 && (args[i-1] == "-o" || args[i-1] == "--output") {
				return true
			}
		}
	}
	return false
}

// inWords is an error of the parser in the words of the command line, and the command whose usage is asked for.
func inWords(err error) (command string, _ error) {
	command = "leasehold"
	parse, ok := errors.AsType[*kong.ParseError](err)
	if !ok {
		return command, err
	}
	node := cmp.Or(parse.Context.Selected(), parse.Context.Model.Node)
	for n, end := node, ""; n.Parent != nil; n, end = n.Parent, " "+n.Name+end {
		command = "leasehold " + n.Name + end
	}
	text := err.Error()
	word, isWord := strings.CutPrefix(text, "unexpected argument ")
	flag, isFlag := strings.CutPrefix(text, "unknown flag ")
	_, before := beforeCommand[flag]
	name, _, expects := strings.Cut(text, ": expected ")
	switch {
	case isWord && len(node.Children) > 0:
		err = fmt.Errorf("%s has no command %s", command, word)
	case isFlag && before && len(node.Children) > 0:
		err = fmt.Errorf("%s stands before a command or after it, and there is none", flag)
	case isFlag && flag == "--tenant":
		err = fmt.Errorf("%s has no --tenant: it is about nothing that belongs to one", command)
	case expects && strings.HasSuffix(text, "(<EOL>)"):
		err = fmt.Errorf("%s: its value is missing", name)
	}
	return command, err
}

// ignoreEmpty makes an empty variable of a flag count as not set, as it does in servers.
func ignoreEmpty(app *kong.Application, env func(string) string) error {
	return kong.Visit(app, func(v kong.Visitable, next kong.Next) error {
		if n, ok := v.(*kong.Node); ok {
			for _, f := range n.Flags {
				f.Tag.Envs = slices.DeleteFunc(slices.Clone(f.Tag.Envs), func(name string) bool { return env(name) == "" })
			}
		}
		return next(nil)
	})
}

// durations reads durations with errors in words.
var durations = kong.TypeMapper(reflect.TypeFor[time.Duration](),
	kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		var text string
		if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
			return err
		}
		d, err := time.ParseDuration(text)
		switch {
		case err == nil:
			target.SetInt(int64(d))
			return nil
		case text != "" && strings.Trim(text, "0123456789") == "":
			return fmt.Errorf("%s has no unit: write %ss for seconds, or a duration such as 500ms, 5m or 2h", text, text)
		default:
			return fmt.Errorf("%q is no duration: write a number with a unit, such as 500ms, 30s, 5m or 2h", text)
		}
	}))
