package sqlitestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
)

// prepareFile makes sure that path is a file that can be written, and creates it (mode 0600) and its parent folders
// (mode 0700) if need be. It returns the absolute path, because the process may change its working folder later.
func prepareFile(path string) (string, os.FileInfo, error) {
	switch path {
	case "":
		return "", nil, errors.New("sqlite: the path is empty: name a file, such as leasehold.db")
	case ":memory:":
		return "", nil, errors.New("sqlite: \":memory:\" names no file: a store in memory is docstore.NewMemory")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", nil, fmt.Errorf("sqlite: %s: %w", path, err)
	}
	if err := makeFolder(filepath.Dir(abs)); err != nil {
		return "", nil, pathError(abs, err)
	}
	info, err := os.Stat(abs)
	created := errors.Is(err, fs.ErrNotExist)
	switch {
	case created:
	case err != nil:
		return "", nil, pathError(abs, err)
	case info.IsDir():
		return "", nil, fmt.Errorf("sqlite: %s is a folder: name a file in it, such as %s", abs,
			filepath.Join(abs, "leasehold.db"))
	case !info.Mode().IsRegular():
		return "", nil, fmt.Errorf("sqlite: %s is not a regular file", abs)
	}
	f, err := os.OpenFile(abs, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", nil, pathError(abs, err)
	}
	info, err = f.Stat()
	if err := errors.Join(err, f.Close()); err != nil {
		return "", nil, pathError(abs, err)
	}
	if created {
		if err := syncFolder(filepath.Dir(abs)); err != nil {
			return "", nil, pathError(abs, err)
		}
	}
	return abs, info, nil
}

// exposed says who else could read or replace the file. It is no error: the mounted folders of containers often allow
// everything, and belong to no one else.
func exposed(path string) (warnings []string) {
	if runtime.GOOS == "windows" {
		return nil // the bits say nothing there
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o006 != 0 {
		warnings = append(warnings,
			fmt.Sprintf("%s has mode %04o: every user of this machine can read or change the locks; use chmod 600", path,
				info.Mode().Perm()))
	}
	dir := filepath.Dir(path)
	// Where the sticky bit is set, as on /tmp, only the owner of a file can replace it.
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
		warnings = append(warnings, fmt.Sprintf(
			"%s has mode %04o: every user of this machine can replace the store; use chmod 700", dir, info.Mode().Perm()))
	}
	return warnings
}

// makeFolder creates a folder and its parents. Each new name is forced to the disk: SQLite syncs the folder that holds
// the file, but if a power cut took away the folder itself, every fencing token would begin anew.
func makeFolder(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if err := makeFolder(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncFolder(parent)
}

// syncOpenFolder is a variable for a test: what reached the disk is seen after a power cut only.
var syncOpenFolder = (*os.File).Sync

// syncFolder forces the names in a folder to the disk, where the system can: some cannot sync a folder, and a folder
// that may be searched but not read cannot be opened for it.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	err = syncOpenFolder(d)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

// pathError says what to do about a file that the system does not let us open or create.
func pathError(path string, err error) error {
	var fix string
	switch {
	case errors.Is(err, syscall.EROFS):
		fix = "the file system is read-only: name a path on one that can be written"
	case errors.Is(err, fs.ErrPermission):
		fix = "this user may not write there: change the owner or the mode, or name another path"
	case errors.Is(err, syscall.ENOTDIR):
		fix = "a part of the path is a file, not a folder: name another path"
	case errors.Is(err, syscall.ENOSPC):
		fix = "the disk is full: free some space"
	default:
		fix = "the file cannot be opened"
	}
	return fmt.Errorf("sqlite: %s: %s: %w", path, fix, err)
}

// watched is a file that a store has open.
type watched struct {
	path   string
	opened os.FileInfo
}

// companions are the log and the memory that processes share, which SQLite keeps beside the file.
var companions = []string{"-wal", "-shm"}

// watch remembers which files the connections have open.
func (s *Store) watch() error {
	for _, suffix := range companions {
		info, err := os.Stat(s.path + suffix)
		if err != nil {
			return pathError(s.path+suffix, err)
		}
		s.companions = append(s.companions, watched{s.path + suffix, info})
	}
	return nil
}

func (f watched) stillThere() (bool, error) {
	info, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(info, f.opened), err
}

// stillThere reports whether the paths lead to the files that were opened. A file that was deleted or replaced can
// still be written through the open descriptor, but never read again: the next process to open the path finds another
// file, with other fencing tokens, and without the log that of some time ago. If the log was gone once, the store stays
// as it is: another process may have written to the file meanwhile, by another log.
func (s *Store) stillThere() error {
	if err := s.gone.Load(); err != nil {
		return *err
	}
	if there, err := (watched{s.path, s.opened}).stillThere(); !there {
		return errors.Join(
			fmt.Errorf("%w: the file was moved, deleted or replaced while it was open: put it back, or restart on the new one",
				errMoved), err)
	}
	for _, f := range s.companions {
		there, err := f.stillThere()
		switch {
		case there:
		case err != nil:
			return fmt.Errorf("%w: %w", errMoved, err)
		default:
			err := fmt.Errorf(
				"%w: %s was deleted or replaced while it was open, and the latest writes with it: stop every Leasehold "+
					"that has the file open, run `leasehold store raise-tokens`, and start again", errMoved, f.path)
			s.gone.CompareAndSwap(nil, &err)
			return *s.gone.Load()
		}
	}
	return nil
}

// abandoned are the files that this process still has open with a log that is gone. SQLite gives every connection of a
// process the same memory for a file, so that one that was opened now would have that of the log that is gone.
var abandoned struct {
	mu    sync.Mutex
	files []os.FileInfo
}

func abandon(file os.FileInfo) {
	abandoned.mu.Lock()
	defer abandoned.mu.Unlock()
	abandoned.files = append(abandoned.files, file)
}

func checkAbandoned(path string, file os.FileInfo) error {
	abandoned.mu.Lock()
	defer abandoned.mu.Unlock()
	for _, f := range abandoned.files {
		if os.SameFile(f, file) {
			return fmt.Errorf(
				"sqlite: open %s: this process still has it open with a log that was deleted: restart this process", path)
		}
	}
	return nil
}

// errMoved marks a file that is no longer at its path.
var errMoved = errors.New("not the file that was opened")
