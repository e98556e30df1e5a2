package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/idempotency"
)

// line is one line of the ledger: a payment that was made.
type line struct {
	payment

	Number int    `json:"number"`
	Key    string `json:"key"`
}

// bank makes payments. Its ledger is a file to which it only appends.
type bank struct {
	mu    sync.Mutex
	file  *os.File
	made  int
	known map[string]line // by key: what was paid. In a database this is a unique index, in the payment's transaction
	asked map[string]int  // how often, by key
}

func openBank(dir string) (*bank, error) {
	f, err := os.OpenFile(filepath.Join(dir, "ledger"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	return &bank{file: f, known: map[string]line{}, asked: map[string]int{}}, err
}

// ServeHTTP makes a payment, unless it made one with the same key: then it responds with that one.
func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var p payment
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	time.Sleep(50 * time.Millisecond) // a bank takes its time
	key := r.Header.Get(idempotency.Header)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked[key]++
	if p.To == "carol" && b.asked[key] == 1 {
		http.Error(w, "closed", http.StatusServiceUnavailable)
		return
	}
	paid, ok := b.known[key]
	if !ok || p.To == "erin" { // erin's bank does not look at keys
		var err error
		if paid, err = b.append(key, p); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	if p.To == "dave" {
		panic(http.ErrAbortHandler) // it has paid, and the connection breaks
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, "payment %d: %d euros to %s\n", paid.Number, paid.Euros, paid.To)
}

// append makes a payment. The bank's lock is held.
func (b *bank) append(key string, p payment) (line, error) {
	l := line{p, b.made + 1, key}
	text, err := json.Marshal(l)
	if err != nil {
		return l, err
	}
	if _, err := b.file.Write(append(text, '\n')); err != nil {
		return l, err
	}
	b.made++
	b.known[key] = l
	return l, nil
}

// lines are those of the ledger, read from its file.
func (b *bank) lines() ([]line, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	text, err := os.ReadFile(b.file.Name())
	if err != nil {
		return nil, err
	}
	var all []line
	for one := range bytes.Lines(text) {
		var l line
		if err := json.Unmarshal(one, &l); err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// payments counts the lines of the ledger by key.
func (b *bank) payments() (map[string]int, error) {
	lines, err := b.lines()
	n := map[string]int{}
	for _, l := range lines {
		n[l.Key]++
	}
	return n, err
}
