package projectlock

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// fileName is the name of the lock's file in the project's folder. No other file is ever created, changed or removed.
const fileName = ".lock"

// errBusy is the error of open for a file that is being changed by another process, or by another goroutine of this
// one.
var errBusy = errors.New("the file is being changed")

// disk is the filesystem, as far as the lock needs it. Tests have one that fails.
type disk interface {
	// stat is about the name itself, not about what a link leads to.
	stat(path string) (fs.FileInfo, error)

	// open opens the file for this caller alone until it closes it, or its process ends. It creates the file, which must
	// not exist then, or opens one that exists. The error is errBusy at once if another caller has it open in this way.
	open(path string, create bool) (file, error)

	// read reads the file without open. A file that is being changed may be damaged in what is read.
	read(path string) ([]byte, error)
}

// file is a file that is open for one caller alone.
type file interface {
	stat() (fs.FileInfo, error)
	read() ([]byte, error)

	// write replaces the content by one write at its beginning, so that a process that is killed has written all or
	// nothing.
	write(content []byte) error

	// remove removes the file, which must be the one at path.
	remove(path string) error
	close() error
}

// maxContent bounds what is read: a larger file is damaged.
const maxContent = 4096

// realDisk is the operating system's.
type realDisk struct{}

func (realDisk) stat(path string) (fs.FileInfo, error) { return os.Lstat(path) }

func (realDisk) read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, busy(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(f, maxContent+1))
}

func (realDisk) open(path string, create bool) (file, error) {
	f, err := openAlone(path, create)
	if err != nil {
		return nil, busy(err)
	}
	return realFile{f}, nil
}

// realFile is a file of the operating system.
type realFile struct{ *os.File }

func (f realFile) stat() (fs.FileInfo, error) { return f.Stat() }

func (f realFile) read() ([]byte, error) {
	return io.ReadAll(io.NewSectionReader(f.File, 0, maxContent+1))
}

func (f realFile) write(content []byte) error {
	if _, err := f.WriteAt(content, 0); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil || info.Size() == int64(len(content)) {
		return err
	}
	return f.Truncate(int64(len(content))) // another program wrote a longer one
}

func (f realFile) remove(path string) error { return removeAlone(f.File, path) }
func (f realFile) close() error             { return f.Close() }
