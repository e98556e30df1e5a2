package sqlitestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
		return "", nil, fmt.Errorf("sqlite: %s is a folder: name a file in it, such as %s", abs, filepath.Join(abs, "leasehold.db"))
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
	err = d.Sync()
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

// stillThere reports whether the path leads to the file that was opened. A file that was deleted or replaced can still
// be written through the open descriptor, but never read again: the next process to open the path finds another
// file, with other fencing tokens.
func (s *Store) stillThere() error {
	info, err := os.Stat(s.path)
	if err == nil && os.SameFile(info, s.opened) {
		return nil
	}
	return fmt.Errorf("%w: the file was moved, deleted or replaced while it was open: put it back, or restart on the new one",
		errMoved)
}

// errMoved marks a file that is no longer at its path.
var errMoved = errors.New("not the file that was opened")
