package sqlitestore

import "github.com/leasehold-dev/leasehold/repo/docstore"

// memo remembers what the texts of the documents that were read or written last say. The file is asked all the same: a
// text that is no longer the same is parsed again, also one that another process wrote. So nothing rests on the memo,
// and a lock that is acquired and released is read once.
//
// It keeps the last ones of two halves. When one is full it becomes the older half, and what was not used since is
// forgotten.
type memo struct {
	latest, older map[docstore.Key]memory
}

// memory is a text and what it says, which no one changes.
type memory struct {
	text string
	doc  docstore.Doc
}

// Bounds of a memo: it takes some megabytes at most.
const (
	memoDocs  = 512     // in a half
	memoBytes = 2 << 10 // of a text; longer ones are not remembered
)

// cached returns what the text of a document says, if that is known.
func (m *memo) cached(k docstore.Key, text string) (docstore.Doc, bool) {
	known, ok := m.latest[k]
	if !ok {
		if known, ok = m.older[k]; ok && known.text == text {
			m.keep(k, known.text, known.doc)
		}
	}
	return known.doc, ok && known.text == text
}

// keep remembers what a text says. The document must not be changed any more.
func (m *memo) keep(k docstore.Key, text string, doc docstore.Doc) {
	if len(text) > memoBytes {
		return
	}
	if m.latest == nil || len(m.latest) >= memoDocs {
		m.latest, m.older = make(map[docstore.Key]memory), m.latest
	}
	m.latest[k] = memory{text, doc}
}
