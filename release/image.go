package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// The image has the program, root certificates, a user and two folders that the user may write to, and nothing else: no
// shell, no packages.
const (
	user       = 65532 // that of the images of others that are made for this
	dataFolder = "data/"
	rootsFile  = "etc/ssl/certs/ca-certificates.crt" // where Go looks first
	port       = "8080"
)

// imageEnv: the data of the store sqlite is in /data/leasehold. LEASEHOLD_DATA would be an error with other stores.
var imageEnv = []string{"PATH=/usr/bin", "XDG_DATA_HOME=/data"}

var (
	entrypoint = []string{"/usr/bin/leasehold"}
	command    = []string{"serve"}
)

// health is what Docker asks of a container. The specification of images has no health check; Docker reads this member
// of it all the same, and other programs skip it.
var health = healthcheck{
	Test:     []string{"CMD", "/usr/bin/leasehold", "health"},
	Interval: 10 * time.Second, Timeout: 5 * time.Second, StartPeriod: 10 * time.Second, Retries: 3,
}

// rootsModule has the root certificates that Mozilla's program trusts, so that the image does not depend on those of
// the machine on which it was made, and go.sum says which they are.
const rootsModule = "golang.org/x/crypto/x509roots/fallback"

// rootsVersion is the version of the root certificates.
func rootsVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == rootsModule {
				return m.Version
			}
		}
	}
	return "unknown"
}

// roots are the certificates in PEM. A file of them cannot say that one is trusted with a restriction, so those that
// have one are left out.
func roots() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a Buffer takes everything
		}
	}
	return b.Bytes()
}

// base is what the image has on every processor.
func base(license, notices file) []file {
	const doc = "usr/share/doc/leasehold/"
	license.name, notices.name = doc+license.name, doc+notices.name
	return []file{
		{name: "etc/", folder: true},
		{name: "etc/group", content: []byte("root:x:0:\nleasehold:x:65532:\n")},
		{name: "etc/passwd", content: []byte(
			"root:x:0:0:root:/:/sbin/nologin\nleasehold:x:65532:65532:Leasehold:/data:/sbin/nologin\n")},
		{name: "etc/ssl/", folder: true},
		{name: "etc/ssl/certs/", folder: true},
		{name: rootsFile, content: roots()},
		{name: dataFolder, folder: true, perm: 0o700, owner: user},
		{name: "tmp/", folder: true, perm: 0o1777},
		{name: "usr/", folder: true},
		{name: "usr/share/", folder: true},
		{name: "usr/share/doc/", folder: true},
		{name: doc, folder: true},
		license, notices,
	}
}

// upper is what it has for one processor.
func upper(p *binary) []file {
	program := p.file()
	program.name = "usr/bin/" + program.name
	return []file{{name: "usr/", folder: true}, {name: "usr/bin/", folder: true}, program}
}

// rootfs writes the root of the image into a folder. Only root can give the data folder to its user; for others that is
// left to who copies it.
func (b *builder) rootfs(ctx context.Context, target platform, dir string) error {
	p, err := b.build(ctx, leasehold, target)
	if err != nil {
		return err
	}
	b.label = cmp.Or(b.label, p.info.Main.Version) // that of the commit, as Go names it
	modules, err := b.modules([]*binary{p})
	if err != nil {
		return err
	}
	license, err := b.sourceFile("LICENSE")
	if err != nil {
		return err
	}
	b.logf("the root of the image in %s", dir)
	for _, f := range sorted(append(base(license, file{name: "THIRD_PARTY_NOTICES.txt", content: b.notices(modules)}),
		upper(p)...)) {
		path := filepath.Join(dir, f.name)
		if f.folder {
			err = os.MkdirAll(path, 0o755)
		} else {
			err = os.WriteFile(path, f.content, 0o644)
		}
		mode := os.FileMode(f.mode() & 0o777)
		if f.mode()&0o1000 != 0 {
			mode |= os.ModeSticky
		}
		err = errors.Join(err, os.Chmod(path, mode))
		if f.owner != 0 && os.Geteuid() == 0 {
			err = errors.Join(err, os.Chown(path, f.owner, f.owner))
		}
		if err == nil && !f.folder {
			err = os.Chtimes(path, b.source.time, b.source.time)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// The parts of an image, as the Open Container Initiative describes them (image-spec 1.1).
const (
	mediaIndex    = "application/vnd.oci.image.index.v1+json"
	mediaManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaConfig   = "application/vnd.oci.image.config.v1+json"
	mediaLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *imagePlatform    `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type imagePlatform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	Variant      string `json:"variant,omitempty"`
}

type imageIndex struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Manifests     []descriptor      `json:"manifests"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

type imageManifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        descriptor        `json:"config"`
	Layers        []descriptor      `json:"layers"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

type imageConfig struct {
	Created string `json:"created"`
	imagePlatform

	Config  runConfig      `json:"config"`
	RootFS  imageRootFS    `json:"rootfs"`
	History []imageHistory `json:"history"`
}

type runConfig struct {
	User         string              `json:"User"` //nolint:tagliatelle // the specification's names
	ExposedPorts map[string]struct{} `json:"ExposedPorts"`
	Env          []string            `json:"Env"`
	Entrypoint   []string            `json:"Entrypoint"`
	Cmd          []string            `json:"Cmd"`
	WorkingDir   string              `json:"WorkingDir"`
	Labels       map[string]string   `json:"Labels"`
	StopSignal   string              `json:"StopSignal"`
	Healthcheck  healthcheck         `json:"Healthcheck"`
}

//nolint:tagliatelle // Docker's names
type healthcheck struct {
	Test        []string      `json:"Test"`
	Interval    time.Duration `json:"Interval"` // in nanoseconds, as the others
	Timeout     time.Duration `json:"Timeout"`
	StartPeriod time.Duration `json:"StartPeriod"`
	Retries     int           `json:"Retries"`
}

type imageRootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type imageHistory struct {
	Created   string `json:"created"`
	CreatedBy string `json:"created_by"`
	Comment   string `json:"comment"`
}

// layout collects the files of an OCI image layout.
type layout struct{ files []file }

// blob adds content and returns what refers to it.
func (l *layout) blob(mediaType string, content []byte) descriptor {
	digest := hexSum(content)
	name := "blobs/sha256/" + digest
	known := false
	for _, f := range l.files {
		known = known || f.name == name
	}
	if !known {
		l.files = append(l.files, file{name: name, content: content})
	}
	return descriptor{MediaType: mediaType, Digest: "sha256:" + digest, Size: len(content)}
}

func (l *layout) json(mediaType string, value any) (descriptor, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return descriptor{}, err
	}
	return l.blob(mediaType, content), nil
}

func hexSum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// labels are those of the image.
func (b *builder) labels() map[string]string {
	const prefix = "org.opencontainers.image."
	return map[string]string{
		prefix + "title":         "Leasehold",
		prefix + "description":   "Locks with fencing tokens, tasks that run once and unique IDs, over HTTP",
		prefix + "version":       b.label,
		prefix + "revision":      b.source.commit,
		prefix + "created":       b.source.time.Format(time.RFC3339),
		prefix + "source":        repository,
		prefix + "url":           repository,
		prefix + "documentation": repository + "/blob/" + b.source.commit + "/docs/guides/containers.md",
		prefix + "licenses":      "Apache-2.0",
		prefix + "vendor":        "Leasehold",
	}
}

// image is an OCI image layout in a tar archive, with an image for each Linux among the programs. Nil if there is none.
func (b *builder) image(programs []*binary, license, notices file) ([]byte, error) {
	var l layout
	index := imageIndex{SchemaVersion: 2, MediaType: mediaIndex, Annotations: b.labels()}
	for _, p := range programs {
		if p.platform.os != "linux" {
			continue
		}
		manifest, err := b.manifest(&l, p, base(license, notices))
		if err != nil {
			return nil, err
		}
		index.Manifests = append(index.Manifests, manifest)
	}
	if index.Manifests == nil {
		return nil, nil
	}
	top, err := l.json(mediaIndex, index)
	if err != nil {
		return nil, err
	}
	top.Annotations = map[string]string{
		"org.opencontainers.image.ref.name": b.label,
		// the name that it has after "docker load"
		"io.containerd.image.name": "docker.io/library/leasehold:" + b.label,
	}
	list, err := json.Marshal(imageIndex{SchemaVersion: 2, MediaType: mediaIndex, Manifests: []descriptor{top}})
	if err != nil {
		return nil, err
	}
	l.files = append(l.files,
		file{name: "index.json", content: list},
		file{name: "oci-layout", content: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		file{name: "blobs/", folder: true}, file{name: "blobs/sha256/", folder: true})
	return tarball(l.files, b.source.time)
}

// manifest adds the image of one processor to the layout.
func (b *builder) manifest(l *layout, p *binary, base []file) (descriptor, error) {
	created := b.source.time.Format(time.RFC3339)
	here := imagePlatform{Architecture: p.platform.arch, OS: p.platform.os}
	if here.Architecture == "arm64" {
		here.Variant = "v8"
	}
	config := imageConfig{
		Created: created, imagePlatform: here,
		Config: runConfig{
			User: fmt.Sprintf("%d:%d", user, user), ExposedPorts: map[string]struct{}{port + "/tcp": {}}, Env: imageEnv,
			Entrypoint: entrypoint, Cmd: command,
			WorkingDir: "/", Labels: b.labels(), StopSignal: "SIGTERM", Healthcheck: health,
		},
		RootFS: imageRootFS{Type: "layers"},
	}
	manifest := imageManifest{SchemaVersion: 2, MediaType: mediaManifest, Annotations: b.labels()}
	for _, layer := range []struct {
		comment string
		files   []file
	}{{"root certificates, user, folders", base}, {"the program", upper(p)}} {
		plain, err := tarball(layer.files, b.source.time)
		if err != nil {
			return descriptor{}, err
		}
		small, err := compress(plain)
		if err != nil {
			return descriptor{}, err
		}
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, "sha256:"+hexSum(plain))
		config.History = append(config.History, imageHistory{created, "leasehold/release", layer.comment})
		manifest.Layers = append(manifest.Layers, l.blob(mediaLayer, small))
	}
	var err error
	if manifest.Config, err = l.json(mediaConfig, config); err != nil {
		return descriptor{}, err
	}
	d, err := l.json(mediaManifest, manifest)
	d.Platform = &here
	return d, err
}
