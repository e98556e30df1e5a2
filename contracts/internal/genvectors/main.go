// Genvectors writes the test vectors of IDs, for those who read and make IDs in other languages:
// genvectors vectors/kazahana.json
//
// It knows no clock and no chance: the same code writes the same file.
package main

import (
	"bytes"
	"encoding/json"
	"log"
	"os"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: genvectors file.json")
	}
	content, err := Vectors()
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(os.Args[1], content, 0o644); err != nil {
		log.Fatal(err)
	}
}

// Vectors returns the content of the file. What its members mean is in contracts/vectors/README.md.
func Vectors() ([]byte, error) {
	v := vectors{
		Comment: "Test vectors of kazahana IDs and their public IDs. README.md beside this file explains them. " +
			"Generated: make generate.",
		Layouts:      map[string]layout{},
		MalformedIDs: malformedIDs(),
		Releases:     releases(),
		Encodings:    encodings(),
	}
	for name, l := range layouts {
		v.Layouts[name] = layout{
			Layout: l, MaxMachineID: l.MaxMachineID(), Throughput: l.Throughput(), End: text(l.End()),
		}
	}
	var err error
	if v.IDs, err = ids(); err != nil {
		return nil, err
	}
	if v.ExternalIDs, err = externalIDs(); err != nil {
		return nil, err
	}
	if v.Plausibility, err = plausibilities(); err != nil {
		return nil, err
	}
	if v.MalformedExternalIDs, err = malformedExternalIDs(); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
