package tokenfile

import "os"

// Hang makes each look at the file wait for answers.
func (i *Identity) Hang(answers <-chan struct{}) {
	stat := i.tokens.Stat
	i.tokens.Stat = func(path string) (os.FileInfo, error) {
		<-answers
		return stat(path)
	}
}
