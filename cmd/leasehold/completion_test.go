package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestComplete: what may follow comes from the command table.
func TestComplete(t *testing.T) {
	for line, want := range map[string]string{ // words are separated by blanks; the last one is unfinished
		"":                           "analysis audit completion demo doctor emulate fence health help id lock man once placement prove run serve store token version worker",
		"lo":                         "lock",
		"lock re":                    "release renew",
		"lock list --s":              "--server --state",
		"--server http://x lock li":  "list",
		"lock --tenant lock li":      "list",
		"lock --tenant=acme forc":    "force-release",
		"lock acquire k --wai":       "--wait",
		"lock list --state ":         "active expired released",
		"lock list --state e":        "expired",
		"lock list --output ":        "json table wide",
		"lock list -o w":             "wide",
		"-o json lock li":            "list",
		"lock run k --store re":      "redis",
		"lock run k --sk":            "--skip",
		"analysis list --status R":   "READY",
		"run ":                       "again get list remove retry",
		"run list --state R":         "READY RUNNING",
		"once a --max-t":             "--max-takeovers",
		"man --di":                   "--dir",
		"completion ":                "bash fish zsh",
		"completion z":               "zsh",
		"lock run --al":              "--also",
		"serve --store ":             "dynamodb firestore memory redis sqlite",
		"serve --store me":           "memory",
		"serve --store=me":           "--store=memory",
		"serve --store = me":         "memory",
		"serve --store =":            "dynamodb firestore memory redis sqlite",
		"id encode --mode unk":       "unkeyed",
		"emulate dyn":                "dynamodb",
		"lock acquire --owner ":      "", // any value: the shell offers file names
		"lock acquire deploy":        "",
		"nothing of this --x=y here": "",
	} {
		got := completions(t, strings.Split(line, " "))
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// TestCompleteEverything: each command and each flag that is shown in a help can be completed.
func TestCompleteEverything(t *testing.T) {
	c := newCLI()
	parser, err := kong.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	offers := func(words []string) []string { // as the command does, without making the table each time
		var out strings.Builder
		complete(parser.Model, words, &out)
		return offered(out.String())
	}
	for _, leaf := range parser.Model.Leaves(true) {
		path := strings.Fields(strings.TrimPrefix(leaf.Path(), "leasehold"))
		words := slices.DeleteFunc(path, func(w string) bool {
			return strings.HasPrefix(w, "<") || strings.HasPrefix(w, "[") || strings.HasPrefix(w, "(")
		})
		for i := range words {
			if got := offers(words[:i+1]); !slices.Contains(got, words[i]) {
				t.Errorf("%v: %v", words[:i+1], got)
			}
		}
		for _, group := range leaf.AllFlags(true) {
			for _, f := range group {
				if got := offers(append(slices.Clone(words), "--"+f.Name)); !slices.Contains(got, "--"+f.Name) {
					t.Errorf("%v --%s: %v", words, f.Name, got)
				}
			}
		}
	}
}

// completions are what the command offers for the last word, sorted.
func completions(t *testing.T, words []string) []string {
	t.Helper()
	var out, errs strings.Builder
	if code := run(t.Context(), append([]string{completeCommand}, words...), &out, &errs); code != exitOK ||
		errs.String() != "" {
		t.Fatalf("%v: %d %s", words, code, &errs)
	}
	return offered(out.String())
}

// offered are the words of what the command printed, sorted.
func offered(printed string) []string {
	var words []string
	for line := range strings.Lines(printed) {
		word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		words = append(words, word)
	}
	slices.Sort(words)
	return words
}

// childVariable makes this test binary the command, for the scripts of the shells.
const childVariable = "LEASEHOLD_COMPLETION_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	for _, v := range os.Environ() { // the commands that tests run have no settings but those of the tests
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "LEASEHOLD_") {
			_ = os.Unsetenv(name)
		}
	}
	os.Exit(m.Run())
}

// TestCompletionScripts runs the scripts in the shells that are there.
func TestCompletionScripts(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "leasehold")); err != nil {
		t.Skipf("the shells find the command by a symbolic link, which this system does not allow: %v", err)
	}
	for shell, script := range map[string]string{
		"bash": `source <(leasehold completion bash)
			offer() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _leasehold; echo "${COMPREPLY[*]}"; }
			offer leasehold lock re
			offer leasehold serve --store = me
			offer leasehold lock acquire ''`,
		"fish": `leasehold completion fish | source
			complete -C 'leasehold lock re' | cut -f1 | string join ' '
			complete -C 'leasehold serve --store me' | cut -f1 | string join ' '
			echo (count (complete -C 'leasehold lock acquire ' | string match -r '^lock'))`,
		"zsh": `autoload -U compinit; compinit -u -D; source <(leasehold completion zsh)
			_describe() { print -r -- ${(P)2} }; _files() { print files }
			offer() { words=("$@"); CURRENT=$#; _leasehold; }
			offer leasehold lock re
			offer leasehold serve --store me
			offer leasehold lock acquire ''`,
	} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skipf("%s is not installed (the gate installs it): %v", shell, err)
			}
			cmd := exec.CommandContext(t.Context(), path, "-c", script)
			cmd.Env = append(os.Environ(), childVariable+"=1", "HOME="+dir, "PATH="+dir+string(os.PathListSeparator)+
				os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			lines := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
			if err != nil || len(lines) < 2 || !strings.Contains(lines[0], "renew") || !strings.Contains(lines[0], "release") ||
				strings.Contains(lines[0], "acquire") ||
				!strings.Contains(lines[1], "memory") || strings.Contains(lines[1], "sqlite") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
