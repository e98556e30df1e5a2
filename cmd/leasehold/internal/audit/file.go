package audit

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ReadFile reads a file as [Log.Read] does, until ctx ends; - is standard input.
func (l *Log) ReadFile(ctx context.Context, name string) error {
	if name == "-" {
		return l.Read("standard input", untilEnd{os.Stdin, ctx})
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was read only
	return l.Read(name, untilEnd{f, ctx})
}

// ReadNewest reads the file of a server, and then those that it was rotated to, the newest first, until they are as
// many bytes as given: of the last one that is read the end, unless it is compressed. Rotated files are FILE.1 and
// FILE-20260101, also with .gz, as logrotate names them.
func (l *Log) ReadNewest(ctx context.Context, name string, most int64) error {
	if to, err := filepath.EvalSymlinks(name); err == nil { // it may be renamed, and not yet be there again
		name = to
	}
	broken, lines := l.Broken, l.BrokenLines
	for try := 0; ; try++ {
		l.Broken, l.BrokenLines = broken, lines
		files, err := rotated(name)
		if err != nil {
			return err
		}
		err = l.readFiles(ctx, filepath.Dir(name), files, most)
		if !errors.Is(err, errRotated) || try == 3 {
			return err
		}
	}
}

// errRotated is that a file is another one than it was: the newest events may be in one that is not in the list.
var errRotated = errors.New("the files of audit events were rotated again and again while they were read: try again")

// readFiles reads files of a folder, as many bytes as given.
func (l *Log) readFiles(ctx context.Context, folder string, files []fs.FileInfo, most int64) error {
	for _, f := range files {
		if most <= 0 {
			return nil
		}
		n, err := l.readEnd(ctx, filepath.Join(folder, f.Name()), f, most)
		if errors.Is(err, fs.ErrNotExist) { // rotated or removed meanwhile
			err = errRotated
		}
		if err != nil {
			return err
		}
		most -= n
	}
	return nil
}

// rotated are a file and those that it was rotated to, the newest first.
func rotated(name string) ([]fs.FileInfo, error) {
	entries, err := os.ReadDir(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	base := filepath.Base(name)
	var found []fs.FileInfo
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), base)
		if rest = strings.TrimSuffix(rest, ".gz"); !ok || rest != "" && (len(rest) < 2 || rest[0] != '.' && rest[0] != '-' ||
			strings.Trim(rest[1:], "0123456789") != "") {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			found = append(found, info)
		}
	}
	slices.SortFunc(found, func(a, b fs.FileInfo) int {
		return cmp.Or(b.ModTime().Compare(a.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	return found, nil
}

// readEnd reads the last bytes of a file, from the first line that begins there, and says how many they are. Of a
// compressed file they are those that it has uncompressed: all, or none.
func (l *Log) readEnd(ctx context.Context, name string, listed fs.FileInfo, most int64) (int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // it was read only
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !os.SameFile(info, listed) || info.Size() < listed.Size() {
		return 0, errRotated
	}
	in := bufio.NewReader(untilEnd{f, ctx})
	if magic, _ := in.Peek(2); isGzip(magic) {
		n, err := uncompressed(in, most)
		if err != nil && ctx.Err() == nil { // it may be written just now, beside the file that it is made of
			l.broken(Broken{name, 1, err.Error()})
			return 0, nil
		}
		if err != nil || n > most {
			return n, err // what is older is older still
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return 0, err
		}
		return n, l.Read(name, untilEnd{f, ctx})
	}
	if size := info.Size(); size > most {
		if _, err := f.Seek(size-most, io.SeekStart); err != nil {
			return 0, err
		}
		in.Reset(untilEnd{f, ctx})
		if err := skipLine(in); err != nil {
			return most, err
		}
		return most, l.Read(name, in)
	}
	return info.Size(), l.Read(name, in)
}

// uncompressed counts the bytes of a compressed file, until there are more than most.
func uncompressed(in io.Reader, most int64) (int64, error) {
	z, err := gzip.NewReader(in)
	if err != nil {
		return 0, err
	}
	return io.Copy(io.Discard, io.LimitReader(z, most+1))
}

// skipLine reads the rest of a line.
func skipLine(in *bufio.Reader) error {
	for {
		switch _, err := in.ReadSlice('\n'); {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return nil
		default:
			return err
		}
	}
}

// isGzip reports whether a file that begins so is compressed with gzip.
func isGzip(magic []byte) bool { return len(magic) >= 2 && magic[0] == 0x1f && magic[1] == 0x8b }

// untilEnd is a reader that ends with a context: files may be large.
type untilEnd struct {
	io.Reader

	ctx context.Context //nolint:containedctx // of the request that reads
}

// Read implements [io.Reader].
func (r untilEnd) Read(b []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}
