package lock

// ReadSignalled is how often the document of a lock is read at most because the store signals changes.
const ReadSignalled = readSignalled
