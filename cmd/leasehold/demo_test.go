package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestBrowser: a page is opened for who sits in front of a terminal with a display, and for no script.
func TestBrowser(t *testing.T) {
	terminal, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // a character device, as a terminal is
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	dir := t.TempDir()
	for _, name := range []string{"xdg-open", "xdg-open.exe"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		out       io.Writer
		system    string
		variables string
		path      string
		want      string
	}{
		"X":                     {terminal, "linux", "DISPLAY", dir, "xdg-open"},
		"Wayland":               {terminal, "freebsd", "WAYLAND_DISPLAY", dir, "xdg-open"},
		"no display":            {terminal, "linux", "", dir, ""},
		"no xdg-open":           {terminal, "linux", "DISPLAY", t.TempDir(), ""},
		"macOS":                 {terminal, "darwin", "", dir, "open"},
		"Windows":               {terminal, "windows", "", dir, "rundll32"},
		"CI":                    {terminal, "darwin", "CI", dir, ""},
		"a file":                {&bytes.Buffer{}, "darwin", "", dir, ""},
		"a file with a display": {&bytes.Buffer{}, "linux", "DISPLAY", dir, ""},
	} {
		t.Setenv("PATH", c.path)
		got := browser(c.out, c.system, func(name string) string {
			if slices.Contains(strings.Fields(c.variables), name) {
				return "1"
			}
			return ""
		})
		if strings.Join(got[:min(1, len(got))], "") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestDemoFlags: who asks for the scenes in the terminal asks for no page, and no other machine can reach either.
func TestDemoFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--check", "--no-browser"}, "can't be used together"},
		{[]string{"--json", "--no-browser"}, "can't be used together"},
		{[]string{"--check", "--listen", "0.0.0.0:0"}, "--listen: the demonstration is for this machine only"},
		{[]string{"--no-browser", "--listen", ":0"}, "--listen: the demonstration is for this machine only"},
		{[]string{"--json", "--listen", "192.0.2.1:1"}, "--listen: the demonstration is for this machine only"},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), append([]string{"demo"}, c.args...), &out, &errs)
		if code != exitUsage || !strings.Contains(out.String()+errs.String(), c.says) {
			t.Errorf("%q: exit code %d, want %q\n%s%s", c.args, code, c.says, &out, &errs)
		}
	}
}
