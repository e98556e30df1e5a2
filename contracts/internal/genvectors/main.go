// Genvectors writes the test vectors of IDs, of placement, of fingerprints and of errors into a folder, for those who
// do the same in other languages: genvectors vectors
//
// It knows no clock and no chance: the same code writes the same files.
package main

import (
	"bytes"
	"encoding/json"
	"log"
	"os"
	"path/filepath"

	"github.com/leasehold-dev/leasehold/contracts"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: genvectors folder")
	}
	files, err := Files()
	if err != nil {
		log.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(os.Args[1], name), content, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// Files returns the content of each file. What their members mean is in contracts/vectors/README.md.
func Files() (map[string][]byte, error) {
	files := map[string][]byte{}
	ofIDs, err := idVectors()
	if err != nil {
		return nil, err
	}
	for name, v := range map[string]any{"errors.json": errorsOf(contracts.Codes()), "fingerprints.json": fingerprints(),
		"kazahana.json": ofIDs, "placement.json": placements()} {
		if files[name], err = encode(v); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return out.Bytes(), err
}

func idVectors() (vectors, error) {
	v := vectors{
		Comment: "Test vectors of kazahana IDs and their public IDs. README.md beside this file explains them. " +
			"Generated: make generate.",
		Layouts:      map[string]layout{},
		MalformedIDs: malformedIDs(), MalformedBase32: malformedBase32(),
		Releases:  releases(),
		Encodings: encodings(),
	}
	for name, l := range layouts {
		v.Layouts[name] = layout{
			Layout: l, MaxMachineID: l.MaxMachineID(), Throughput: l.Throughput(), End: text(l.End()),
		}
	}
	var err error
	if v.IDs, err = ids(); err != nil {
		return vectors{}, err
	}
	if v.ExternalIDs, err = externalIDs(); err != nil {
		return vectors{}, err
	}
	if v.Plausibility, err = plausibilities(); err != nil {
		return vectors{}, err
	}
	v.MalformedExternalIDs, err = malformedExternalIDs()
	return v, err
}
