package reread

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// lookForToken is how often a program looks whether the file of its token has changed, at most.
const lookForToken = 250 * time.Millisecond

// EmptyError is that of a file of a token without one. It is the path of the file.
type EmptyError string

func (e EmptyError) Error() string { return string(e) + " is empty" }

// Token opens a file that has a bearer token; space around it does not count. One that is no regular file, such as a
// pipe, is read once.
func Token(path string) (*File[string], error) {
	first := true
	f := &File[string]{Paths: []string{path}, Every: lookForToken}
	f.Read = func() (string, error) {
		info, err := os.Stat(path)
		if err == nil && !first && !info.Mode().IsRegular() { // it would be waited for
			err = fmt.Errorf("%s is not a file any more", path)
		}
		if err != nil {
			return "", err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		token := strings.TrimSpace(string(b))
		if token == "" {
			return "", EmptyError(path)
		}
		first = false
		return token, nil
	}
	return f, f.Open()
}
