package lock

// How often the document of a lock is read at most, while requests wait for the lock.
const (
	ReadSignalled = readSignalled // because the store signals changes
	ReadLeast     = readLeast     // for any reason
)
