// Package official finds Google's own Firestore emulator for tests that compare with it: one that is running, or the one
// of an installed Google Cloud SDK. It needs Java, four seconds to start and a hundred megabytes.
package official

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Start returns the address of the emulator that FIRESTORE_EMULATOR_HOST names, or starts one on a free loopback port for
// as long as the test runs. If there is none it skips the test and says how to start one.
func Start(t testing.TB) string {
	t.Helper()
	if addr := os.Getenv("FIRESTORE_EMULATOR_HOST"); addr != "" {
		return addr
	}
	roots := []string{os.Getenv("CLOUDSDK_ROOT_DIR"), "/usr/lib/google-cloud-sdk", "/opt/google-cloud-sdk", "/google-cloud-sdk"}
	if home, err := os.UserHomeDir(); err == nil {
		roots = append(roots, filepath.Join(home, "google-cloud-sdk"))
	}
	java, noJava := exec.LookPath("java")
	at := slices.IndexFunc(roots, func(root string) bool {
		_, err := os.Stat(jar(root))
		return root != "" && err == nil
	})
	if at < 0 || noJava != nil {
		t.Skip("no official emulator: start one with `gcloud emulators firestore start --host-port=127.0.0.1:8085` " +
			"and set FIRESTORE_EMULATOR_HOST=127.0.0.1:8085")
	}
	addr := freeAddress(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), java, "-Duser.language=en", "-cp", jar(roots[at]), //nolint:gosec // a test's own choice
		"com.google.cloud.datastore.emulator.firestore.CloudFirestore", "--host=127.0.0.1", "--port="+port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	dialer := net.Dialer{Timeout: time.Second}
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if conn, err := dialer.DialContext(t.Context(), "tcp", addr); err == nil {
			_ = conn.Close()
			return addr
		}
		if time.Now().After(deadline) {
			t.Fatalf("the official emulator does not answer on %s after a minute", addr)
		}
	}
}

// freeAddress is a loopback address that nobody listens on now.
func freeAddress(t testing.TB) string {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nothing was sent
	return l.Addr().String()
}

func jar(root string) string {
	return filepath.Join(root, "platform", "cloud-firestore-emulator", "cloud-firestore-emulator.jar")
}
