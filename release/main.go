// Command release makes the files of a release from one commit. In the root of the repository:
//
//	make release VERSION=v1.2.3
//	go run -C release . [flags] VERSION
//
// It writes into dist/VERSION: an archive for each system and processor, with the manual pages and the scripts of
// completion; the Lambda function; the sources of the Cloud Functions; a container image for two processors as an OCI
// layout; the licenses of what is linked; a bill of materials; a statement of provenance; and SHA256SUMS. Progress goes
// to standard error, the list of files to standard output.
//
// The same commit and the same Go make the same bytes, in whatever folder and on whatever machine: what is built is a
// new clone of the commit, whose only tag is the version, with the settings of the compiler that are stated here, and
// every file in an archive has the commit's time and no owner. -verify makes the files again and compares them with a
// list of checksums.
//
// -key signs SHA256SUMS and the statement of provenance; -sign does that with a release that was made before. Without a
// key a release is not signed, and the tool says so.
//
// -rootfs writes the root folder of the image only; the Dockerfile is made with it.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "release:", err)
		}
		os.Exit(1) //nolint:gocritic // the process ends: there are no signals to wait for
	}
}

// order is what the command line asks for.
type order struct {
	version   version
	repo      string     // the root of the repository
	out       string     // folder for the folder of the version
	platforms []platform // of the command line's archives
	dirty     bool       // build the working tree, with changes that are in no commit
	asJSON    bool
	verify    string // a list of checksums to compare with, instead of writing files
	rootfs    string // write the root folder of the image here, and nothing else
	key       string // a file with the key that signs; empty: nothing is signed
	command   string // signs in the place of a private key
	sign      string // sign the release in this folder, and make nothing
}

func parse(args []string, stderr io.Writer) (*order, error) {
	var o order
	var names string
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "Make a release:  make release VERSION=v1.2.3, or go run -C release . [flags] VERSION")
		flags.PrintDefaults()
	}
	flags.StringVar(&o.repo, "repo", "..", "root of the repository")
	flags.StringVar(&o.out, "out", "dist",
		"`folder` that gets a folder VERSION with the files; this and other paths are relative to the repository")
	flags.StringVar(&names, "platforms", strings.Join(namesOf(platforms), ","),
		"systems and processors to build for; the image has those of them that are Linux")
	flags.BoolVar(&o.dirty, "dirty", false, "build the working tree although it has changes that are in no commit")
	flags.BoolVar(&o.asJSON, "json", false, "print a summary as JSON instead of the list of files")
	flags.StringVar(&o.verify, "verify", "",
		"write nothing: build, and compare with this `list of checksums`, such as SHA256SUMS of a download")
	flags.StringVar(&o.rootfs, "rootfs", "",
		"write the root of the image for the one platform into this `folder`, and nothing else; VERSION may be missing")
	flags.StringVar(&o.key, "key", "",
		"sign with this `file`: a private key for ECDSA on P-256 in PEM, or with -sign-command the public one")
	flags.StringVar(&o.command, "sign-command", "",
		"`command` for sh that signs instead: a message on its standard input, ECDSA over SHA-256 in DER on its output")
	flags.StringVar(&o.sign, "sign", "", "make nothing: sign the release in this `folder`; VERSION is not needed")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 1 {
		return nil, fmt.Errorf("one VERSION at a time: %q", flags.Args())
	}
	var err error
	if o.repo, err = filepath.Abs(o.repo); err != nil {
		return nil, err
	}
	if o.platforms, err = parsePlatforms(names); err != nil {
		return nil, err
	}
	switch {
	case o.command != "" && o.key == "":
		return nil, errors.New("-sign-command needs -key with the public key, to check what was signed")
	case o.sign != "" && o.key == "":
		return nil, errors.New("-sign needs -key")
	case o.key != "" && (o.verify != "" || o.rootfs != ""):
		return nil, errors.New("-key signs a release: -verify and -rootfs make none")
	}
	if o.rootfs+o.sign == "" || flags.Arg(0) != "" {
		if o.version, err = parseVersion(flags.Arg(0)); err != nil {
			return nil, err
		}
	}
	if o.rootfs != "" && (len(o.platforms) != 1 || o.platforms[0].os != "linux") {
		return nil, fmt.Errorf("-rootfs needs one platform of Linux, such as -platforms linux/amd64; it has %q", names)
	}
	for _, path := range []*string{&o.out, &o.verify, &o.rootfs, &o.key, &o.sign} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(o.repo, *path)
		}
	}
	return &o, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	var by *signer
	if o.key != "" {
		if by, err = newSigner(o.key, o.command); err != nil { // before it has built for minutes
			return err
		}
	}
	if o.sign != "" {
		added, err := by.signFolder(ctx, o.sign)
		for _, f := range added {
			fmt.Fprintln(stdout, filepath.Join(o.sign, f.name))
		}
		return err
	}
	tmp, err := os.MkdirTemp("", "leasehold-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	b, err := newBuilder(ctx, o, tmp, stderr)
	if err != nil {
		return err
	}
	if o.rootfs != "" {
		return b.rootfs(ctx, o.platforms[0], o.rootfs)
	}
	began := time.Now()
	made, err := b.release(ctx)
	if err != nil {
		return err
	}
	if o.verify != "" {
		return verify(o.verify, made, stdout)
	}
	if by != nil {
		added, err := by.signatures(ctx, made)
		if err != nil {
			return err
		}
		made = append(made, added...)
	} else {
		b.logf("NOT SIGNED: there is no -key (make release VERSION=… KEY=FILE). Sign it before it is published: make sign")
	}
	dir := filepath.Join(o.out, b.label)
	if err := replace(dir, made); err != nil {
		return err
	}
	b.logf("%d files in %s after %v", len(made), dir, time.Since(began).Round(time.Second))
	if o.asJSON {
		s := b.summary(made)
		s.Signed = by != nil
		return s.write(stdout)
	}
	for _, f := range made {
		fmt.Fprintln(stdout, filepath.Join(dir, f.name))
	}
	return nil
}

// replace writes the files into a folder of the version, which has nothing else afterwards. A folder of an earlier
// attempt is there, whole, until the new one is.
func replace(dir string, files []file) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	next, err := os.MkdirTemp(filepath.Dir(dir), ".next-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(next) }()
	if err := os.Chmod(next, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(next, f.name), f.content, 0o644); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(next, dir)
}

// summary says what was made.
type summary struct {
	Version string        `json:"version"`
	Commit  string        `json:"commit"`
	Date    string        `json:"date"` // of the commit, RFC 3339
	Dirty   bool          `json:"dirty"`
	Go      string        `json:"go_version"`
	Signed  bool          `json:"signed"`
	Files   []summaryFile `json:"files"`
}

type summaryFile struct {
	Name   string `json:"name"`
	Size   int    `json:"size"` // bytes
	SHA256 string `json:"sha256"`
}

func (b *builder) summary(files []file) summary {
	s := summary{b.label, b.source.commit, b.source.time.Format(time.RFC3339), b.source.dirty, b.goVersion, false, nil}
	for _, f := range files {
		s.Files = append(s.Files, summaryFile{f.name, len(f.content), f.sum()})
	}
	return s
}

func (s summary) write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(s)
}

// verify compares the files that were made with a list of checksums, in which files may be missing: a download need not
// be whole.
func verify(path string, made []file, stdout io.Writer) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	ours := map[string]string{}
	for _, f := range made {
		ours[f.name] = f.sum()
	}
	equal, different := 0, []string{}
	for line := range strings.Lines(string(text)) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok || len(sum) != 64 {
			return fmt.Errorf("%s: %q is no line of sha256sum", path, strings.TrimSpace(line))
		}
		switch theirs := ours[name]; theirs {
		case sum:
			equal++
			fmt.Fprintf(stdout, "%s: the same\n", name)
		case "":
			different = append(different, name+" is not made of this commit")
		default:
			different = append(different, fmt.Sprintf("%s is another file: %s here, %s there", name, theirs, sum))
		}
	}
	if len(different) > 0 || equal == 0 {
		return fmt.Errorf(
			"%d files of %s are the same; these are not: %s.\nIs it the same commit, and the same Go? \"leasehold version\" of the download says both",
			equal, path, cmp.Or(strings.Join(different, "; "), "it names none"))
	}
	fmt.Fprintf(stdout, "%d files are the same, byte for byte\n", equal)
	return nil
}
