package idempotency_test

import (
	"bufio"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/idempotency"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// serverVariable is set in the process that TestKill kills: the server that it asks.
const serverVariable = "IDEMPOTENCY_TEST_SERVER"

func TestMain(m *testing.M) {
	if server := os.Getenv(serverVariable); server != "" {
		dies(server)
	}
	os.Exit(m.Run())
}

// dies carries out a request whose handler does not end.
func dies(server string) {
	c, err := client.New(server, nil)
	if err != nil {
		log.Panic(err)
	}
	m, err := idempotency.New(c.Runs("shop"), user, &idempotency.Options{Name: "payments", TTL: 5 * time.Second})
	if err != nil {
		log.Panic(err)
	}
	post(m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		fmt.Println("running")
		select {}
	})), "k1", "ten euros")
}

// TestKill: a process is killed while it carries out a request. The same request, sent to another one, waits for as
// long as the lock lasts, and is then carried out there; later ones get that response.
func TestKill(t *testing.T) {
	server := httptest.NewServer(contracttest.Handler(t, httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, nil)))
	defer server.Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	victim := exec.CommandContext(t.Context(), exe)
	victim.Env = append(os.Environ(), serverVariable+"="+server.URL)
	victim.Stderr = os.Stderr
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "running\n" {
		t.Fatalf("%q, %v", line, err)
	}
	c, err := client.New(server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	pays := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		runs++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, "paid")
	})
	h := middleware(t, c.Runs("shop"), &idempotency.Options{Wait: new(time.Duration)}).Wrap(pays)
	is(t, "while it lives", post(h, "k1", "ten euros"), 409, "IDEMPOTENT_REQUEST_RUNNING")
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait()
	waits := middleware(t, c.Runs("shop"), &idempotency.Options{Wait: new(time.Minute)}).Wrap(pays)
	if w := post(waits, "k1", "ten euros"); w.Code != 201 || w.Body.String() != "paid" || replayed(w) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := post(h, "k1", "ten euros"); w.Code != 201 || !replayed(w) || runs != 1 {
		t.Errorf("%d %s, %d runs", w.Code, w.Body, runs)
	}
	is(t, "another payload", post(h, "k1", "twenty euros"), 422, "IDEMPOTENCY_KEY_REUSED")
}
