package lock

// How often the document of a lock is read at most, while requests wait for the lock.
const (
	ReadSignalled = readSignalled // because the store signals changes
	SetRest       = setRest
	ReadLeast     = readLeast // for any reason
)
