package main

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestServe: the URL is the first line, the scripts are there, and the end of the input ends it.
func TestServe(t *testing.T) {
	stdin, end := io.Pipe()
	lines, stdout := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- serve("127.0.0.1:0", time.Second, stdin, stdout) }()
	line, err := bufio.NewReader(lines).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSpace(line)+"/scripts", nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	if text, err := io.ReadAll(w.Body); err != nil || !strings.Contains(string(text), `"name":"lock-hold-renew-release"`) {
		t.Errorf("%v: %s", err, text)
	}
	_ = end.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestServeNowhere: an address that cannot be is an error.
func TestServeNowhere(t *testing.T) {
	if err := serve("127.0.0.1:99999", time.Second, nil, io.Discard); err == nil {
		t.Error("it listens on a port that there is not")
	}
}
