package redistest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // it is how Redis names scripts
	_ "embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/leasehold-dev/leasehold/emulator/internal/external"
)

// startTimeout is how long a server may take to start.
const startTimeout = 2 * time.Minute

// Server is a Redis server behind a proxy.
type Server struct {
	*proxy

	// Real says that it is redis-server, and not the stand-in.
	Real bool

	instance atomic.Pointer[standIn] // of a stand-in: as which server it runs

	args  []string
	ahead time.Duration // of its clock
	dir   string        // of its files, and of its socket
	cmd   *exec.Cmd
	ended chan struct{}
}

// Each runs a test on the real server, if the environment asks for it, and on the stand-in. The arguments are for the
// real one.
func Each(t *testing.T, args []string, test func(t *testing.T, s *Server)) {
	t.Helper()
	t.Run("redis-server", func(t *testing.T) { test(t, Start(t, args...)) })
	t.Run("miniredis", func(t *testing.T) { test(t, StandIn(t)) })
}

// Start starts redis-server with these arguments, such as "--appendonly", "yes", for as long as the test runs. Without
// arguments it keeps everything in memory. It skips the test unless LEASEHOLD_TEST_SERVERS is 1 and redis-server is
// installed.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := prepare(t)
	s.args = append(s.args, "--port", "0")
	s.args = append(s.args, args...)
	s.launch(t)
	return s
}

// aheadText is a library that shows a process another time.
//
//go:embed preload/ahead.c
var aheadText []byte

// StartAhead is Start of a server whose clock is ahead, or behind, until SetRight. It skips the test where gcc is not
// installed, or another system than Linux runs.
func StartAhead(t testing.TB, by time.Duration, args ...string) *Server {
	t.Helper()
	s := prepare(t)
	if _, err := exec.LookPath("gcc"); err != nil || runtime.GOOS != "linux" {
		t.Skip("gcc is not installed: apt-get install gcc")
	}
	source := filepath.Join(s.dir, "ahead.c")
	if err := os.WriteFile(source, aheadText, 0o600); err != nil {
		t.Fatal(err)
	}
	//nolint:gosec // the test's own
	build := exec.CommandContext(t.Context(), "gcc", "-shared", "-fPIC", "-O1", "-o", s.preload(), source)
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	s.ahead = by
	s.args = append(s.args, "--port", "0")
	s.args = append(s.args, args...)
	s.launch(t)
	return s
}

// preload is the library of StartAhead.
func (s *Server) preload() string { return filepath.Join(s.dir, "ahead.so") }

// SetRight starts the server again with its files, and with a clock that is right.
func (s *Server) SetRight(t testing.TB) {
	t.Helper()
	s.ahead = 0
	s.Another(t)
}

// StartCluster starts a cluster of one member, which serves all slots. Clients are told to find it behind the proxy.
func StartCluster(t testing.TB) *Server {
	t.Helper()
	return StartClusterOf(t, 1)[0]
}

// StartClusterOf starts a cluster of so many members, each with an equal part of the slots, which the others do without
// when it fails. Clients are told to find them behind their proxies.
func StartClusterOf(t testing.TB, members int) []*Server {
	t.Helper()
	const slots = 16384
	cluster := make([]*Server, members)
	meet := make([]string, members)
	for i := range cluster {
		s := prepare(t)
		_, announced, err := net.SplitHostPort(s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		ports := external.FreePorts(t, 2) // of clients, which come by the proxy, and of members
		s.args = append(s.args, "--cluster-enabled", "yes", "--bind", "127.0.0.1", "--port", ports[0], "--cluster-port",
			ports[1],
			"--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port", announced, "--cluster-require-full-coverage", "no")
		s.launch(t)
		s.expect(t, fmt.Sprintf("CLUSTER ADDSLOTSRANGE %d %d", slots*i/members, slots*(i+1)/members-1), "+OK")
		cluster[i], meet[i] = s, fmt.Sprintf("CLUSTER MEET 127.0.0.1 %s %s", ports[0], ports[1])
	}
	for _, command := range meet[1:] {
		cluster[0].expect(t, command, "+OK")
	}
	for _, s := range cluster {
		s.expect(t, "CLUSTER INFO", "cluster_state:ok")
		s.expect(t, "CLUSTER INFO", fmt.Sprintf("cluster_known_nodes:%d\r", members))
	}
	return cluster
}

// expect sends a command until the response has what is wanted.
func (s *Server) expect(t testing.TB, command, want string) {
	t.Helper()
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(5 * time.Millisecond) {
		response := s.tell(command)
		if strings.Contains(response, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %s", command, response)
		}
	}
}

// prepare makes a server that has not been started yet.
func prepare(t testing.TB) *Server {
	t.Helper()
	external.Ask(t, "redis-server", "")
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed: apt-get install redis-server, or brew install redis")
	}
	// A socket's path may have a hundred bytes or so; the test's own folder is longer when its name is.
	dir, err := os.MkdirTemp("", "redis-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &Server{Real: true, dir: dir, args: []string{
		"--unixsocket", filepath.Join(dir, "redis.sock"), "--dir", dir, "--save", "", "--daemonize", "no",
	}}
	t.Cleanup(s.Kill)
	s.proxy = newProxy(t, s.dialSocket)
	return s
}

func (s *Server) dialSocket() (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(context.Background(), "unix", filepath.Join(s.dir, "redis.sock"))
}

// launch starts the process and waits until it responds.
func (s *Server) launch(t testing.TB) {
	t.Helper()
	var output bytes.Buffer
	//nolint:gosec // a test's own choice
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "redis-server", s.args...)
	if s.ahead != 0 {
		cmd.Env = append(os.Environ(), "LD_PRELOAD="+s.preload(), fmt.Sprintf("CLOCK_AHEAD_SECONDS=%d", s.ahead/time.Second))
	}
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	s.cmd, s.ended = cmd, ended
	go func() {
		_ = cmd.Wait() // it is killed in the end
		close(ended)
	}()
	for deadline := time.Now().Add(startTimeout); ; {
		if response := s.tell("PING"); response != "" && !strings.HasPrefix(response, "-LOADING") {
			return
		}
		select {
		case <-s.ended:
			t.Fatalf("redis-server ended:\n%s", output.Bytes())
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			s.Kill()
			t.Fatalf("redis-server does not respond after %v:\n%s", startTimeout, output.Bytes())
		}
	}
}

// tell sends a command and returns the beginning of the response, which is empty if there is none.
func (s *Server) tell(command string) string {
	c, err := s.dialSocket()
	if err != nil {
		return ""
	}
	defer c.Close() //nolint:errcheck // nothing is lost
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Write([]byte(command + "\r\n")); err != nil {
		return ""
	}
	buf := make([]byte, 4096)
	n, _ := c.Read(buf)
	return string(buf[:n])
}

// URL is where the server is, for a client that waits for minutes: on a busy machine the stand-in can take longer than
// the limit of a try, which is then sent again, or fails. A server that is gone ends its connections.
func (s *Server) URL() string { return "redis://" + s.Addr() + LongTimeouts }

// LongTimeouts are settings of a client, behind an address, that let it wait as [Server.URL] says.
const LongTimeouts = "?dial_timeout=2m&read_timeout=2m&write_timeout=2m&pool_timeout=2m"

// AppendOnlyFiles are the names of the files to which a real server with appendonly adds what it changes.
func (s *Server) AppendOnlyFiles(t testing.TB) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(s.dir, "appendonlydir", "*.incr.aof"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%q, %v", names, err)
	}
	return names
}

// Files are what a real server has in its folder, by name.
func (s *Server) Files(t testing.TB) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(s.dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			files[name], err = os.ReadFile(name) //nolint:gosec // the folder is the test's own
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Kill ends a real server as a power cut would end its process (SIGKILL), and waits until it is gone.
func (s *Server) Kill() {
	if s.cmd == nil {
		return // it never began
	}
	_ = s.cmd.Process.Kill()
	<-s.ended
}

// Another lets another server take this one's place, with what is on it: connections end, and scripts are forgotten.
// The real one is started again, with its files.
func (s *Server) Another(t testing.TB) {
	t.Helper()
	if s.Real {
		s.Kill()
		s.cut()
		s.launch(t)
		return
	}
	s.instance.Store(newStandIn())
	s.cut()
}

// Restart starts a real server again after Kill, with the same files.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.launch(t)
}

// StandIn starts a stand-in for as long as the test runs.
func StandIn(t testing.TB) *Server {
	t.Helper()
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The connections have been cut. What still carries out a command needs the server that Close takes away.
		for end := time.Now().Add(10 * time.Second); m.Server().ClientsLen() > 0 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		m.Close()
	})
	s := &Server{proxy: newProxy(t, func() (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(context.Background(), "tcp", m.Addr())
	})}
	s.instance.Store(newStandIn())
	m.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
		s.instance.Load().prepare(command, args)
		return false // go on with the command
	})
	return s
}

// standIn is a server that a stand-in passes for.
type standIn struct {
	run    string
	hashes sync.Map // of the scripts that it knows, to those of what they became
}

func newStandIn() *standIn { return &standIn{run: rand.Text()} }

// aboutText lets a script ask which server it runs on.
const aboutText = `local redis = setmetatable({call = function(command, ...)
  if command == 'INFO' then
    return 'run_id:%[1]s\r\nmaster_replid:%[1]s\r\n'
  end
  return redis.call(command, ...)
end}, {__index = redis})
`

// msgpackText is a library of Lua that redis-server has and miniredis has not.
//
//go:embed msgpack.lua
var msgpackText string

// prepare takes the first line out of scripts like "#!lua flags=allow-oom", which miniredis does not know, puts what it
// lacks before the rest, and lets that go by the hash of the whole. A server does not know the scripts of another.
func (i *standIn) prepare(command string, args []string) {
	if len(args) == 0 {
		return
	}
	switch command {
	case "EVAL":
		if rest, ok := strings.CutPrefix(args[0], "#!lua"); ok {
			_, rest, _ = strings.Cut(rest, "\n")
			if strings.Contains(rest, "'INFO'") {
				rest = fmt.Sprintf(aboutText, i.run) + rest
			}
			rest = msgpackText + rest
			i.hashes.Store(hash(args[0]), hash(rest))
			args[0] = rest
		}
	case "EVALSHA":
		rest, ok := i.hashes.Load(args[0])
		if args[0], _ = rest.(string); !ok {
			args[0] = strings.Repeat("0", 2*sha1.Size)
		}
	}
}

func hash(script string) string {
	sum := sha1.Sum([]byte(script)) //nolint:gosec // it is how Redis names scripts
	return hex.EncodeToString(sum[:])
}
