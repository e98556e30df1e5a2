//go:build unix

package main

import (
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cloud.google.com/go/cloudbuild/apiv1/v2/cloudbuildpb"
	"github.com/google/go-containerregistry/pkg/registry"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// pipeline runs the scripts of cloudbuild.yaml one by one in the folder of a clone, as Cloud Build does in /workspace.
type pipeline struct {
	// the workspace, the home folder of all steps, and a folder of programs that take the place of others
	dir, home, programs string
	steps               map[string]*cloudbuildpb.BuildStep
	values              map[string]string // of substitutions
}

func newPipeline(t *testing.T, dir string) *pipeline {
	t.Helper()
	var tree any
	if err := yaml.Unmarshal(read(t, "../cloudbuild.yaml"), &tree); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	var build cloudbuildpb.Build
	if err := protojson.Unmarshal(text, &build); err != nil {
		t.Fatal(err)
	}
	p := &pipeline{dir, t.TempDir(), t.TempDir(), map[string]*cloudbuildpb.BuildStep{}, build.GetSubstitutions()}
	p.values["PROJECT_ID"] = "my-project"
	for _, s := range build.GetSteps() {
		p.steps[s.GetId()] = s
	}
	return p
}

// replace puts a shell script in the place of a program.
func (p *pipeline) replace(t *testing.T, name, script string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.programs, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
}

// run runs a step; more is added to its environment.
func (p *pipeline) run(t *testing.T, id string, more ...string) (string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte(p.steps[id].GetScript()), 0o700); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), path)
	c.Dir = p.dir
	c.Env = []string{"HOME=" + p.home, "PATH=" + p.programs + ":" + os.Getenv("PATH"), "GOPROXY=" + os.Getenv("GOPROXY")}
	// What is compiled here already is not compiled again.
	for name, value := range goEnv(t, "GOCACHE", "GOMODCACHE", "GOFLAGS", "CGO_ENABLED") {
		c.Env = append(c.Env, name+"="+value)
	}
	for _, kv := range p.steps[id].GetEnv() {
		c.Env = append(c.Env, os.Expand(kv, func(name string) string { return p.values[name] }))
	}
	c.Env = append(c.Env, more...)
	out, err := c.CombinedOutput()
	return string(out), err
}

// TestCloudBuildScripts: the scripts of the steps do what they should. What they start that takes long, or needs Google
// Cloud, is replaced.
func TestCloudBuildScripts(t *testing.T) {
	dir := released(t)
	p := newPipeline(t, filepath.Dir(filepath.Dir(dir)))
	t.Cleanup(func() { // the workspace is the clone of other tests
		_ = os.RemoveAll(filepath.Join(p.dir, "dist", "image"))
		for _, name := range []string{"image-name", "release", "leasehold.pub"} {
			_ = os.Remove(filepath.Join(p.dir, "dist", name))
		}
		_ = os.Remove(filepath.Join(dir, signatureFile))
		_ = os.Remove(filepath.Join(dir, "leasehold-"+testVersion+envelopeSuffix))
	})

	if out, err := p.run(t, "check"); err == nil || !strings.Contains(out, "_VERSION is empty") {
		t.Errorf("check without a version: %v\n%s", err, out)
	}
	p.values["_VERSION"] = testVersion
	if out, err := p.run(t, "check"); err == nil || !strings.Contains(out, "_BUCKET is empty") {
		t.Errorf("check without a bucket: %v\n%s", err, out)
	}
	p.values["_BUCKET"] = "my-releases"
	if out, err := p.run(t, "check"); err != nil {
		t.Errorf("check: %v\n%s", err, out)
	}
	elsewhere := *p
	elsewhere.dir = t.TempDir()
	if out, err := elsewhere.run(t, "check"); err == nil || !strings.Contains(out, "there is no .git") {
		t.Errorf("check without .git: %v\n%s", err, out)
	}

	p.replace(t, "go", `echo "go $*"; [ "$1" != vet ]`)
	if out, err := p.run(t, "test"); err == nil || out != "go vet ./...\n" {
		t.Errorf("test goes on after an error: %v\n%s", err, out)
	}
	if err := os.Remove(filepath.Join(p.programs, "go")); err != nil {
		t.Fatal(err)
	}

	p.replace(t, "make", `echo "make $*"`)
	if out, err := p.run(t, "release"); err != nil || out != "make release VERSION="+testVersion+"\n" {
		t.Errorf("release: %v\n%s", err, out)
	}
	again := filepath.Join(t.TempDir(), "again")
	p.steps["reproduce"].Script = strings.ReplaceAll(p.steps["reproduce"].GetScript(), "/tmp/again", again)
	want := "make -C " + again + " verify-release VERSION=" + testVersion + " SUMS=" + dir + "/SHA256SUMS\n"
	if out, err := p.run(t, "reproduce"); err != nil || !strings.HasSuffix(out, want) { // git says that HEAD is detached
		t.Errorf("reproduce: %v\n%s want %s", err, out, want)
	}
	if _, err := os.Stat(filepath.Join(again, ".git")); err != nil {
		t.Error(err)
	}

	// Without a key nothing is signed, and the step says so; with one the service signs. OpenSSL takes its place.
	out, err := p.run(t, "sign")
	if err != nil || !strings.Contains(out, "NOT SIGNED") || strings.Contains(out, "gcloud") {
		t.Errorf("sign without a key: %v\n%s", err, out)
	}
	p.values["_KMS_KEY"] = "projects/p/locations/l/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1"
	private, public := newKey(t)
	p.replace(t, "gcloud", `case "$*" in
"kms keys versions get-public-key `+p.values["_KMS_KEY"]+` --output-file "*) cat `+public+` >"$7" ;;
"kms asymmetric-sign --version `+p.values["_KMS_KEY"]+
		` --digest-algorithm sha256 --input-file - --signature-file -") exec openssl dgst -sha256 -sign `+private+` ;;
*) echo "gcloud $*" >&2; exit 7 ;;
esac`)
	if out, err := p.run(t, "sign"); err != nil {
		t.Errorf("sign: %v\n%s", err, out)
	}
	check := strings.ReplaceAll(documented(t, "**It is signed with a key of yours**"), "leasehold.pub", public)
	if out, err := shell(t, dir, check); err != nil {
		t.Errorf("what was signed: %v\n%s", err, out)
	}

	// A registry takes the image, and the service gets it by its digest.
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	ref := strings.TrimPrefix(server.URL, "http://") + "/my-project/leasehold/leasehold"
	if out, err := p.run(t, "push", "IMAGE="+ref+":"+testVersion); err != nil || !strings.Contains(out, ref+"@sha256:") {
		t.Errorf("push: %v\n%s", err, out)
	}
	digest, err := image(t).Digest()
	if err != nil {
		t.Fatal(err)
	}
	p.replace(t, "gcloud", `echo "gcloud $*"`)
	if out, err := p.run(t, "deploy"); err != nil || !strings.Contains(out, "nothing is deployed") ||
		strings.Contains(out, "gcloud") {
		t.Errorf("deploy without a service: %v\n%s", err, out)
	}
	p.values["_SERVICE"] = "leasehold"
	want = "gcloud run services update leasehold --project my-project --region europe-west1 --image " + ref + "@" +
		digest.String() + "\n"
	if out, err := p.run(t, "deploy"); err != nil || out != want {
		t.Errorf("deploy: %v\n%s want %s", err, out, want)
	}
	p.replace(t, "gcloud", `exit 7`)
	if _, err := p.run(t, "deploy"); err == nil {
		t.Error("deploy succeeds although gcloud fails")
	}
}
