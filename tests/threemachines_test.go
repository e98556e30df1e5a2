//go:build unix

package tests

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// machines are three that reach each other by the addresses of the guide: network namespaces where this process may
// make some, and otherwise this machine alone, which has all of their roles.
type machines struct {
	address, port string // of the server
	in            func(machine string, c *exec.Cmd)
	alone         error // why they are one machine; nil: they are three
}

func threeMachines(t *testing.T) machines {
	t.Helper()
	name := func(machine string) string { return fmt.Sprintf("leasehold%d%s", os.Getpid(), machine) }
	alone := machines{"127.0.0.1", strconv.Itoa(freePort(t)), func(string, *exec.Cmd) {}, errors.New("root may make them")}
	if os.Getuid() != 0 {
		return alone
	}
	ip := func(args string) error {
		out, err := exec.CommandContext(t.Context(), "ip", strings.Fields(args)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %s: %w: %s", args, err, out)
		}
		return nil
	}
	steps := []string{"netns add " + name("server"), "-n " + name("server") + " link set lo up"}
	for i, machine := range []string{"alpha", "bravo"} {
		there := "-n " + name(machine) + " "
		here := fmt.Sprintf("-n %s ", name("server"))
		end, other := "to"+machine, fmt.Sprintf("10.77.0.%d", i+2)
		steps = append(steps, "netns add "+name(machine),
			here+"link add "+end+" type veth peer name eth0 netns "+name(machine),
			here+"addr add 10.77.0.1 peer "+other+" dev "+end, here+"link set "+end+" up",
			there+"addr add "+other+" peer 10.77.0.1 dev eth0", there+"link set eth0 up")
	}
	t.Cleanup(func() {
		for _, machine := range []string{"server", "alpha", "bravo"} {
			_ = exec.Command("ip", "netns", "del", name(machine)).Run() // it is there, or was never made
		}
	})
	steps = append(steps, "netns exec "+name("alpha")+" true")
	for _, s := range steps {
		if err := ip(s); err != nil {
			alone.alone = err
			return alone
		}
	}
	return machines{"10.77.0.1", "8443", func(machine string, c *exec.Cmd) {
		path, err := exec.LookPath("ip")
		if err != nil {
			t.Fatal(err)
		}
		c.Args = append([]string{"ip", "netns", "exec", name(machine), c.Path}, c.Args[1:]...)
		c.Path = path
	}, nil}
}

// TestThreeMachines: the guide works as it stands, from nothing to a lock across machines: with a certificate and
// tokens that its commands make, the settings of its files, and what each machine types.
func TestThreeMachines(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the certificate is named in SSL_CERT_FILE on Linux")
	}
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl makes the certificate") // the gate has it
	}
	three := threeMachines(t)
	t.Run("between network namespaces", func(t *testing.T) {
		if three.alone != nil {
			t.Skipf("SKIPPED: no network namespaces can be made, so that the guide is followed on this machine alone: %v",
				three.alone)
		}
	})
	dir, program := t.TempDir(), filepath.Dir(binary(t))
	for _, sub := range []string{"etc", "lib"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	sh := blocks(t, "docs/tutorials/three-machines.md", "sh")
	for i := range sh {
		sh[i] = strings.NewReplacer("/etc/leasehold", filepath.Join(dir, "etc"), "/var/lib/leasehold",
			filepath.Join(dir, "lib"), "10.77.0.1", three.address, ":8443", ":"+three.port).Replace(sh[i]) + "\n"
	}
	// What a machine has besides: users, groups and systemd are not changed here.
	const besides = "set -eu; useradd() { :; }; install() { :; }; chgrp() { :; }; systemctl() { :; }\n"
	command := func(machine, script string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), "/bin/sh", "-c", besides+script)
		c.Env = append(environment(), "PATH="+program+string(os.PathListSeparator)+os.Getenv("PATH"))
		three.in(machine, c)
		return c
	}
	types := func(machine, script string) string {
		t.Helper()
		out, err := command(machine, script).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s\n%s", machine, err, script, out)
		}
		return string(out)
	}
	const setUp, settings, exports, doctor, alphas, bravos, nightly, wrong, gone = 0, 1, 3, 4, 5, 6, 7, 8, 9
	types("server", sh[setUp]+sh[2])

	server := command("server", "set -a; "+sh[settings]+"exec leasehold serve")
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	lines := bufio.NewScanner(stdout)
	lines.Scan()
	if want := "listening on https://" + three.address + ":" + three.port; lines.Text() != want {
		t.Fatalf("the server said %q, %v, want %q", lines.Text(), lines.Err(), want)
	}

	as := func(machine string) string { return strings.ReplaceAll(sh[exports], "alpha", machine) }
	if out := types("alpha", as("alpha")+sh[doctor]); !strings.Contains(out, "you are alpha, in the tenant default") {
		t.Errorf("the doctor: %s", out)
	}
	said := func(machine string) string {
		said, err := os.ReadFile(filepath.Join(dir, machine))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return string(said)
	}
	runs := func(machine, script, until string) (ends func()) { // both outputs go into a file
		t.Helper()
		c := command(machine, "exec >"+filepath.Join(dir, machine)+" 2>&1; "+as(machine)+script)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(failAfter)
		for ; !strings.Contains(said(machine), until); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s does not say %q: %s", machine, until, said(machine))
			}
		}
		return func() {
			t.Helper()
			if err := c.Wait(); err != nil {
				t.Errorf("%s: %v, %s", machine, err, said(machine))
			}
		}
	}
	holds := runs("alpha", strings.Replace(sh[alphas], "sleep 2", "until [ -e "+dir+"/go ]; do sleep 0.05; done", 1),
		"deploying with fencing token ")
	waits := runs("bravo", sh[bravos], "is held by alpha#")
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	holds()
	if waits(); !strings.HasSuffix(said("bravo"), "bravo's turn\n") {
		t.Errorf("bravo: %s", said("bravo"))
	}
	ran := types("alpha", as("alpha")+sh[nightly]) + types("bravo", as("bravo")+sh[nightly])
	if ran != "reported\n" && ran != "reported\nreported\n" { // it is midnight between the two once a year of tests
		t.Errorf("the job said %q", ran)
	}
	out, err := command("alpha", as("alpha")+sh[wrong]).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 4 {
		t.Errorf("the administrator, of a lock that no one has: %v, %s", err, out)
	}
	list := types("server", strings.Split(sh[gone], "\n")[0])
	id, _, _ := strings.Cut(list[strings.Index(list, "\n")+1:], " ")
	if out := types("server", strings.ReplaceAll(sh[gone], " ID", " "+id)); !strings.Contains(out,
		"of alpha in tenant default is revoked") {
		t.Errorf("revoked: %s", out)
	}
	for deadline := time.Now().Add(failAfter); ; time.Sleep(50 * time.Millisecond) {
		out, err := command("alpha", as("alpha")+"leasehold lock get deploy").CombinedOutput()
		if err != nil && strings.Contains(string(out), "was revoked") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a token that was revoked: %s, %v", out, err)
		}
	}
}
