//go:build !unix

package guarded

import "io/fs"

func othersWrite(fs.FileInfo) bool { return false }

func othersRead(fs.FileInfo) bool { return false }

func stranger(fs.FileInfo) (owner uint32, ok bool) { return 0, false }
