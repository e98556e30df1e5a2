// Package official starts Google's own Firestore emulator for tests that compare with it. It needs Java and a hundred
// megabytes.
package official

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/leasehold-dev/leasehold/emulator/internal/external"
)

// Start returns the address of the emulator that FIRESTORE_EMULATOR_HOST names, or starts the one of an installed
// Google Cloud SDK on a free loopback port for as long as the test runs. It skips the test if the variable is not set
// and LEASEHOLD_TEST_SERVERS is not 1, or if there is no emulator.
func Start(t testing.TB) string {
	t.Helper()
	if addr := os.Getenv("FIRESTORE_EMULATOR_HOST"); addr != "" {
		return addr
	}
	external.Ask(t, "Google's Firestore emulator", ", or FIRESTORE_EMULATOR_HOST to the address of a running one")
	roots := []string{os.Getenv("CLOUDSDK_ROOT_DIR"), "/usr/lib/google-cloud-sdk", "/opt/google-cloud-sdk",
		"/google-cloud-sdk"}
	if home, err := os.UserHomeDir(); err == nil {
		roots = append(roots, filepath.Join(home, "google-cloud-sdk"))
	}
	java, noJava := exec.LookPath("java")
	at := slices.IndexFunc(roots, func(root string) bool {
		_, err := os.Stat(jar(root))
		return root != "" && err == nil
	})
	if at < 0 || noJava != nil {
		t.Skip(
			"no official emulator: install Java and the Google Cloud SDK with `gcloud components install cloud-firestore-emulator`, " +
				"or start one elsewhere with `gcloud emulators firestore start --host-port=127.0.0.1:8085` and set " +
				"FIRESTORE_EMULATOR_HOST=127.0.0.1:8085")
	}
	port := external.FreePorts(t, 1)[0]
	address := net.JoinHostPort("127.0.0.1", port)
	external.Listen(t, address, java, "-Duser.language=en", "-cp", jar(roots[at]),
		"com.google.cloud.datastore.emulator.firestore.CloudFirestore", "--host=127.0.0.1", "--port="+port)
	return address
}

func jar(root string) string {
	return filepath.Join(root, "platform", "cloud-firestore-emulator", "cloud-firestore-emulator.jar")
}
