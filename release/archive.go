package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is a file of the release, of an archive, or of the image.
type file struct {
	name    string // with slashes
	content []byte
	program bool  // may be executed
	folder  bool  // a folder, whose name ends with a slash; in the image only
	perm    int64 // its permissions, if they are not the usual ones
	owner   int   // user and group; 0 is root
}

// sum is the SHA-256 of the content, in hexadecimal.
func (f file) sum() string {
	sum := sha256.Sum256(f.content)
	return hex.EncodeToString(sum[:])
}

func (f file) mode() int64 {
	switch {
	case f.perm != 0:
		return f.perm
	case f.program || f.folder:
		return 0o755
	default:
		return 0o644
	}
}

// tree reads the files of a folder, with names that begin with prefix.
func tree(dir, prefix string) ([]file, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []file
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: prefix + e.Name(), content: content})
	}
	return files, nil
}

// sorted are the files by their names, so that an archive does not depend on how they were found.
func sorted(files []file) []file {
	return slices.SortedFunc(slices.Values(files), func(a, b file) int { return cmp.Compare(a.name, b.name) })
}

// tarball is a tar archive with the files, sorted, all of one time and of no one.
func tarball(files []file, when time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range sorted(files) {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.name, Size: int64(len(f.content)), Mode: f.mode(), Uid: f.owner, Gid: f.owner,
			ModTime: when, Format: tar.FormatPAX,
		}
		if f.folder {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// compress is content as gzip makes it, without a name and a time.
func compress(content []byte) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// tarGzip is a compressed tar archive.
func tarGzip(files []file, when time.Time) ([]byte, error) {
	plain, err := tarball(files, when)
	if err != nil {
		return nil, err
	}
	return compress(plain)
}

// zipped is a zip archive with the files, sorted, all of one time.
func zipped(files []file, when time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range sorted(files) {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: when}
		h.SetMode(os.FileMode(f.mode()))
		out, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := out.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// checksums are the sums of the files as sha256sum writes and checks them.
func checksums(files []file) file {
	var b strings.Builder
	for _, f := range sorted(files) {
		b.WriteString(f.sum() + "  " + f.name + "\n")
	}
	return file{name: sumsFile, content: []byte(b.String())}
}

// below are the files in a folder.
func below(folder string, files []file) []file {
	moved := make([]file, 0, len(files))
	for _, f := range files {
		f.name = folder + "/" + f.name
		moved = append(moved, f)
	}
	return moved
}
