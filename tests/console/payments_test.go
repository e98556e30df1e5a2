package console

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// TestPaymentsPage: a person clicks 20 times on the page of examples/payments, and the process is killed after the bank
// has paid. All clicks get the same payment. The same key with another amount is rejected. A bank that does not look at
// keys pays twice, and the page shows that.
func TestPaymentsPage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "payments")
	if out, err := exec.Command("go", "build", "-C", filepath.Join("..", ".."), "-o", path,
		"./examples/payments").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	c := exec.Command(path, "--listen", "127.0.0.1:0")
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	found := regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`).FindString(first)
	if err != nil || found == "" {
		t.Fatalf("%q, %v", first, err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		_, _ = io.Copy(io.Discard, lines)
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	})
	p := visit(t, found, look{})
	p.shows("#ledger", "With this key: 0.")
	chooses := func(id, value string) {
		p.runs(fmt.Sprintf(`document.getElementById(%q).value = %q`, id, value))
	}
	// of the clicks so far, how many have a last response that says this
	clicks := func(text string, n int) {
		p.until(fmt.Sprintf(`new Set([...document.querySelectorAll('#tries tr')].filter((r) => r.innerText.includes(%q))
			.map((r) => r.cells[0].innerText)).size === %d`, text, n), fmt.Sprintf("%d clicks with %q", n, text))
	}
	chooses("kill", "after")
	p.presses("Pay, and click 20 times")
	clicks("payment 1: 10 euros to bob", 20)
	p.shows("#ledger", "With this key: 1. With all keys: 1. Processes killed: ")
	p.until(`document.querySelector('#tries').innerText.includes('502')`, "a request whose process was killed")

	chooses("kill", "")
	chooses("euros", "99")
	p.presses("Pay")
	clicks("IDEMPOTENCY_KEY_REUSED", 1)
	p.shows("#ledger", "With this key: 1. With all keys: 1.")

	p.presses("New key")
	p.shows("#ledger", "With this key: 0.")
	chooses("to", "erin")
	chooses("kill", "after")
	p.presses("Pay")
	clicks("payment 3: 99 euros to erin", 1)
	p.shows("#ledger", "With this key: 2. With all keys: 3.")
	p.until(`document.querySelector('#ledger').className === 'bad'`, "a warning")
	p.accessible(axe(t), "payments")
	p.clean()
	p.asksOnly(found)
}
