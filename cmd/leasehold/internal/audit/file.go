package audit

import (
	"bufio"
	"cmp"
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

// ReadNewest reads the file of a server, and then those that it was rotated to, the newest first, until they are as many
// bytes as given: of the last one that is read the end, unless it is compressed. Rotated files are FILE.1 and
// FILE-20260101, also with .gz, as logrotate names them.
func (l *Log) ReadNewest(ctx context.Context, name string, most int64) error {
	files, err := rotated(name)
	if err != nil {
		return err
	}
	for _, f := range files {
		if most <= 0 {
			return nil
		}
		n, err := l.readEnd(ctx, f, most)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // rotated or removed meanwhile
			return err
		}
		most -= n
	}
	return nil
}

// rotated are a file and those that it was rotated to, the newest first.
func rotated(name string) ([]string, error) {
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
	names := make([]string, len(found))
	for i, info := range found {
		names[i] = filepath.Join(filepath.Dir(name), info.Name())
	}
	return names, nil
}

// readEnd reads the last bytes of a file, from the first line that begins there, and says how many they are.
func (l *Log) readEnd(ctx context.Context, name string, most int64) (int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // it was read only
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	in := bufio.NewReader(untilEnd{f, ctx})
	magic, _ := in.Peek(2)
	if size := info.Size(); size > most {
		if isGzip(magic) {
			return size, nil // what is older is older still
		}
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
