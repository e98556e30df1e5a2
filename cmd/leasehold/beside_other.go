//go:build !unix

package main

import "os"

// lockServers does nothing where a file has no locks that end with their process.
func lockServers(*os.File, bool) error { return nil }
