// Package guarded looks at who can change and read the files that grant rights or hold secrets: tokens, keys,
// passwords, audit events. What everyone can change says nothing of who may do what, and what everyone can read is no
// secret.
//
// Modes and owners are looked at, of the file and of the folders that it is in; access lists are not. On Windows, which
// has neither, nothing is found.
package guarded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Finding is what is wrong with a file: what others can do, and what to do about it.
type Finding struct {
	Refuse bool // everyone can change what the file says
	Text   string
	Fix    string // a command, or what to ask for
}

// Check returns what is wrong with a file. One that is not there has no faults but those of its folder; a pipe or a
// device has none.
func Check(path string) (found []Finding, err error) {
	folders := []string{filepath.Dir(path)}
	if target, err := filepath.EvalSymlinks(path); err == nil && filepath.Dir(target) != folders[0] {
		folders = append(folders, filepath.Dir(target)) // who changes a link's target changes the file
	}
	for _, folder := range folders {
		info, err := os.Stat(folder)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the error of who opens the file says more
		}
		if err != nil {
			return nil, err
		}
		// With the sticky bit, others can put files there and cannot replace this one.
		if othersWrite(info) && info.Mode()&fs.ModeSticky == 0 {
			found = append(found, Finding{Refuse: true, Text: fmt.Sprintf(
				"everyone can put another file in its place: %s has mode %04o", folder, info.Mode().Perm()),
				Fix: "chmod o-w " + folder})
		}
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	if err != nil || !info.Mode().IsRegular() {
		return found, err
	}
	mode := fmt.Sprintf("it has mode %04o", info.Mode().Perm())
	if othersWrite(info) {
		found = append(found, Finding{Refuse: true, Text: "everyone can change it: " + mode, Fix: "chmod o-w " + path})
	}
	if othersRead(info) {
		found = append(found, Finding{Text: "everyone on this machine can read it: " + mode, Fix: "chmod o-r " + path})
	}
	if owner, ok := stranger(info); ok {
		found = append(found, Finding{Text: fmt.Sprintf(
			"it belongs to user %d, who can change it, and this program runs as user %d", owner, os.Geteuid()),
			Fix: "let it belong to root or to this program's user, unless that user is who manages it"})
	}
	return found, nil
}
