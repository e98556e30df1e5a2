package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

var (
	codeBlock = regexp.MustCompile("(?ms)^ *```[a-z]*\n(.*?)^ *```$")
	ofProgram = regexp.MustCompile(`(?m)(?:^ *(?:\$ )?|&& |\|\| |[;|(] ?|-- |[A-Z_]=\S* |\* {2})leasehold +([^\n]*)`)
	variable  = regexp.MustCompile(`\$(\([^)]*\)|\{[^}]*\}|[A-Za-z_]+)`)
)

// TestCommandsInDocuments: the command line accepts every command that a page shows: its name, its flags, and what they
// are set to.
func TestCommandsInDocuments(t *testing.T) {
	root, seen := filepath.Join("..", ".."), 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".md") || name == "CHANGELOG.md" || name == "docs/reference/cli.md":
			return nil // the changelog has commands of its time; the program writes cli.md
		}
		page, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, block := range codeBlock.FindAllStringSubmatch(string(page), -1) {
			for _, c := range ofProgram.FindAllStringSubmatch(strings.ReplaceAll(block[1], "\\\n", " "), -1) {
				args := words(c[1])
				if len(args) == 0 || args[0] == "}" || strings.Contains(c[1], "…") {
					continue
				}
				seen++
				if err := accepts(args); err != nil {
					t.Errorf("%s: leasehold %s\n%v", name, c[1], err)
				}
			}
		}
		return nil
	})
	if err != nil || seen < 70 {
		t.Errorf("%d commands were found, %v", seen, err)
	}
}

// accepts reads the arguments of a command, and does not run it.
func accepts(args []string) error {
	c := newCLI()
	parser, err := kong.New(&c, kong.Name("leasehold"), kong.Writers(io.Discard, io.Discard), kong.Exit(func(int) {}),
		durations)
	if err != nil {
		return err
	}
	_, err = parser.Parse(arrange(args))
	return err
}

// words are the arguments of a command as a shell splits them, up to the end of the command. A variable counts as 1.
func words(line string) (args []string) {
	line = variable.ReplaceAllString(line, "1")
	word, begun, quote := "", false, rune(0)
	end := func() {
		if begun {
			args = append(args, word)
		}
		word, begun = "", false
	}
	for i, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word += string(c)
		case c == '\'' || c == '"':
			quote, begun = c, true
		case c == ' ' || c == '\t':
			end()
		case strings.ContainsRune("|;&<>)`", c) || c == '#' && !begun:
			if c != '<' && c != '>' || i == 0 || line[i-1] != '2' { // the 2 of 2>
				end()
			}
			return args
		default:
			word, begun = word+string(c), true
		}
	}
	end()
	return args
}

// ofSentence is a command that a sentence names, without its arguments and flags.
var ofSentence = regexp.MustCompile("`leasehold ([a-z][a-z -]*?)(?: -[^`]*| [A-Z][^`]*| \\.\\.\\.| …)?`")

// TestCommandsInSentences: each command that a sentence of the runbook names is one.
func TestCommandsInSentences(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "runbook.md"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, r := range describeAll(t).all() {
		known[strings.TrimPrefix(r.name(), "leasehold ")] = true
	}
	all := ofSentence.FindAllStringSubmatch(string(page), -1)
	for _, c := range all {
		if !known[c[1]] {
			t.Errorf("there is no command %s", c[0])
		}
	}
	if len(all) < 5 {
		t.Errorf("%d commands were found", len(all))
	}
}
