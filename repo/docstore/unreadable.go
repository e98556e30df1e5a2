package docstore

import (
	"errors"
	"fmt"
	"slices"
)

// MostNamed bounds the documents that an [Unreadable] names.
const MostNamed = 20

// Unreadable is the error of a pass that went past documents which cannot be read. It is no failure: everything else
// was done, and each later pass meets the same documents until they are repaired. [Failure] tells the two apart. The
// zero value is of no documents.
type Unreadable struct { //nolint:errname // a pass has it as a value, too: it says what was passed by
	Count int
	Named []error // what is wrong with the first MostNamed of them: each is an ErrDamaged
}

// Take adds an error if all of it is damage, and reports whether it is. An error that says something else as well is a
// failure.
func (u *Unreadable) Take(err error) bool {
	if !onlyDamage(err) {
		return false
	}
	if u.Count++; len(u.Named) < MostNamed {
		u.Named = append(u.Named, err)
	}
	return true
}

// Add adds those of another pass.
func (u *Unreadable) Add(other Unreadable) {
	u.Count += other.Count
	u.Named = append(u.Named, other.Named[:min(len(other.Named), MostNamed-len(u.Named))]...)
}

// AddPage adds those of a page.
func (u *Unreadable) AddPage(p Page) {
	for _, d := range p.Damaged {
		u.Take(d.Err)
	}
}

// Err is nil if there are none.
func (u *Unreadable) Err() error {
	if u.Count == 0 {
		return nil
	}
	return &Unreadable{u.Count, slices.Clone(u.Named)}
}

// Error implements the interface error.
func (u *Unreadable) Error() string {
	text := errors.Join(u.Named...).Error()
	if more := u.Count - len(u.Named); more > 0 {
		text += fmt.Sprintf("\nand %d more", more)
	}
	return text
}

// Unwrap makes it an [ErrDamaged].
func (u *Unreadable) Unwrap() []error { return u.Named }

// Texts are what is wrong with the documents that it names.
func (u *Unreadable) Texts() []string {
	texts := make([]string, len(u.Named))
	for i, err := range u.Named {
		texts[i] = err.Error()
	}
	return texts
}

// Failure splits the error of a pass, or of several that were joined: failed is what went wrong, nil if nothing did,
// and passed are the documents that were passed by.
func Failure(err error) (passed Unreadable, failed error) {
	if u, ok := err.(*Unreadable); ok { //nolint:errorlint // what wraps it says more
		return *u, nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if _, some := errors.AsType[*Unreadable](err); !ok || !some {
		return Unreadable{}, err
	}
	for _, part := range joined.Unwrap() {
		p, f := Failure(part)
		failed = errors.Join(failed, f)
		passed.Add(p)
	}
	return passed, failed
}

// onlyDamage reports whether an error is an [ErrDamaged], and so is each error that was joined to it.
func onlyDamage(err error) bool {
	if !errors.Is(err, ErrDamaged) {
		return false
	}
	switch e := err.(type) { //nolint:errorlint // it looks at what is wrapped
	case interface{ Unwrap() []error }:
		parts := e.Unwrap()
		return slices.Contains(parts, ErrDamaged) ||
			!slices.ContainsFunc(parts, func(part error) bool { return !onlyDamage(part) })
	case interface{ Unwrap() error }:
		inner := e.Unwrap()
		return !errors.Is(inner, ErrDamaged) || onlyDamage(inner) // the mark may be its own
	}
	return true
}
