//go:build !unix

package tokenfile

import "os"

// own does nothing: the folder decides who may read its files.
func own(*os.File, os.FileInfo) error { return nil }
