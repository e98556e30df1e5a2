package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/leasehold-dev/leasehold/emulator/internal/external"
)

// Master is the name by which the Sentinels of [StartSentinels] know the primary.
const Master = "locks"

// Sentinels are a primary, a replica of it, and three Sentinels that watch both. Clients find the Sentinels behind
// their proxies; the servers, where the Sentinels say that they are.
type Sentinels struct {
	Primary, Replica *Server
	Sentinels        []*Server
}

// StartSentinels starts them for as long as the test runs, see [Start]. A primary that does not respond for half a
// second is replaced.
func StartSentinels(t testing.TB) *Sentinels {
	t.Helper()
	const sentinels = 3
	primary, replica := prepare(t), prepare(t)
	ports := external.FreePorts(t, 2+sentinels)
	p := &Sentinels{Primary: primary, Replica: replica}
	primary.args = append(primary.args, "--bind", "127.0.0.1", "--port", ports[0],
		"--repl-diskless-sync-delay", "0")
	primary.launch(t)
	primary.expect(t, "ACL SETUSER replica on nopass +psync +replconf +ping", "+OK")
	replica.args = append(replica.args, "--bind", "127.0.0.1", "--port", ports[1], "--replicaof", "127.0.0.1", ports[0],
		"--masteruser", "replica", "--masterauth", "x")
	replica.launch(t)
	replica.expect(t, "INFO replication", "master_link_status:up")
	for i := range sentinels {
		s := prepare(t)
		file := filepath.Join(s.dir, "sentinel.conf")
		text := fmt.Sprintf("port %s\nbind 127.0.0.1\nunixsocket %s\ndir %s\nsentinel monitor %s 127.0.0.1 %s 2\n"+
			"sentinel down-after-milliseconds %[4]s 500\nsentinel failover-timeout %[4]s 3000\n",
			ports[2+i], filepath.Join(s.dir, "redis.sock"), s.dir, Master, ports[0])
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.args = []string{file, "--sentinel"}
		s.launch(t)
		p.Sentinels = append(p.Sentinels, s)
	}
	for _, s := range p.Sentinels {
		s.expect(t, "SENTINEL CKQUORUM "+Master, "OK 3 usable")
		s.expect(t, "INFO sentinel", "slaves=1,sentinels=3")
	}
	return p
}

// Part lets the primary go on without its replica: what it acknowledges from then on is lost when it fails.
func (p *Sentinels) Part(t testing.TB) {
	t.Helper()
	p.Primary.expect(t, "ACL SETUSER replica off", "+OK")
	p.Primary.expect(t, "CLIENT KILL TYPE replica", ":")
	p.Replica.expect(t, "INFO replication", "master_link_status:down")
}

// Failover asks a Sentinel for a failover, and waits until the replica is the primary.
func (p *Sentinels) Failover(t testing.TB) {
	t.Helper()
	p.Sentinels[0].expect(t, "SENTINEL FAILOVER "+Master, "+OK")
	p.Replica.expect(t, "INFO replication", "role:master")
}
