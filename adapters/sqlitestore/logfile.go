package sqlitestore

import (
	"fmt"
	"os"
	"time"
)

// Bounds of the log, the file that ends in -wal. It begins anew when all of it is in the file and no one reads it: then
// it takes logKept at most. While a read goes on it grows by what is written, and no one can help that.
const (
	logKept = 4 << 20 // bytes

	// cutLogEvery is after how many transactions it is tried again to cut a log that is larger: reads that overlap can
	// keep it from beginning anew for as long as they come.
	cutLogEvery = 64

	// cutLogWithin is how long reads of this store are held up for that at most, until those under way have ended.
	cutLogWithin = 200 * time.Millisecond

	// logWarning is the size of a log of which [Store.Warnings] warns.
	logWarning = 64 << 20
)

// LogBytes is the size of the log beside the file; 0 if it cannot be read.
func (s *Store) LogBytes() int64 {
	info, err := os.Stat(s.path + "-wal")
	if err != nil {
		return 0
	}
	return info.Size()
}

// largeLog warns of a log that has grown to so many bytes.
func (s *Store) largeLog(n int64) []string {
	if n < logWarning {
		return nil
	}
	return []string{fmt.Sprintf("%s-wal, the log of the store, has %d MB, and grows until no one reads what is in it: look for a "+
		"program that has had the file open for long, such as sqlite3 in a transaction, and end that", s.path, n>>20)}
}

// cutLog brings the log into the file and makes it empty, if it has grown. The reads of this store are let end for it;
// if those of another process go on, it is tried again later.
func (w *writer) cutLog() {
	if w.sinceCut++; w.sinceCut < cutLogEvery {
		return
	}
	if w.sinceCut = 0; w.store.LogBytes() <= logKept {
		return
	}
	var readers []*reader
	over := time.NewTimer(cutLogWithin)
	defer over.Stop()
	for waiting := true; waiting && len(readers) < cap(w.store.idle); {
		select {
		case r := <-w.store.idle:
			readers = append(readers, r)
		case <-over.C:
			waiting = false
		}
	}
	_ = w.conn.exec("PRAGMA wal_checkpoint(TRUNCATE)") // where it fails, it is tried again
	for _, r := range readers {
		w.store.idle <- r
	}
}
