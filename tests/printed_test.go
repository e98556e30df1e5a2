package tests

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPrintedCommands: the commands that serve and the emulators print can be pasted into a shell as they are.
func TestPrintedCommands(t *testing.T) {
	for name, c := range map[string]struct {
		args  []string
		wants []string // of the output of each command
	}{
		"serve": {args: []string{"serve", "--store", "memory"}, wants: []string{"my-lock", "my-lock", "LOCK_HELD",
			`"lock_key":"my-lock"`}},
		"emulate sqs": {args: []string{"emulate", "sqs"}, wants: []string{`"MessageId"`, `"MessageId"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := binary(t)
			p := exec.CommandContext(t.Context(), path, append(c.args, "--listen", "127.0.0.1:0")...)
			p.Env = environment()
			stdout, err := p.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = p.Process.Kill(); _ = p.Wait() })
			exports, commands := printed(bufio.NewScanner(stdout))
			if len(commands) != len(c.wants) {
				t.Fatalf("%d commands: %q", len(commands), commands)
			}
			for i, command := range commands {
				program, _, _ := strings.Cut(command, " ")
				if _, err := exec.LookPath(program); err != nil && program != "leasehold" {
					t.Logf("without %s: %s", program, command)
					continue
				}
				sh := exec.CommandContext(t.Context(), "sh", "-ec", exports+command)
				sh.Env = append(environment(), "PATH="+filepath.Dir(path)+string(os.PathListSeparator)+os.Getenv("PATH"))
				if out, err := sh.CombinedOutput(); err != nil || !strings.Contains(string(out), c.wants[i]) {
					t.Errorf("%s\n%s\n%v, want %s", command, out, err, c.wants[i])
				}
			}
		})
	}
}

// printed reads what a command prints until it says how to stop it: lines that export variables, and the other indented
// ones, with lines that a backslash continues.
func printed(lines *bufio.Scanner) (exports string, commands []string) {
	continued := false
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "Stop with") {
		line, ok := strings.CutPrefix(lines.Text(), "  ")
		switch {
		case !ok:
			continue
		case strings.HasPrefix(line, "export "):
			exports += line + "\n"
		case continued:
			commands[len(commands)-1] += "\n" + line
		default:
			commands = append(commands, line)
		}
		continued = strings.HasSuffix(line, `\`)
	}
	return exports, commands
}
