//go:build !linux

package sqlitestore

// holder says which process has the lock of the file, which is not known here.
func (s *Store) holder() string { return unknownHolder }
