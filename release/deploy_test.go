package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// deployment are the files of the repository that describe builds and containers, by their names.
type deployment map[string]string

// deployed reads them.
func deployed(t *testing.T) deployment {
	t.Helper()
	d := deployment{}
	for _, name := range []string{"cloudbuild.yaml", "Dockerfile", ".dockerignore", "compose.yaml", manifests, "Makefile",
		"release/go.mod", "go.mod"} {
		content, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		d[name] = string(content)
	}
	return d
}

// change is a mistake in one of the files, and what its check must say about it.
type change struct {
	file, old, changed, says string
}

// TestDeploymentFiles: nothing is wrong with cloudbuild.yaml, Dockerfile, compose.yaml and the manifest for Kubernetes.
func TestDeploymentFiles(t *testing.T) {
	files := deployed(t)
	for name, check := range checks {
		for _, problem := range check(t, files) {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

var checks = map[string]func(*testing.T, deployment) []string{
	"cloudbuild.yaml": checkCloudBuild, "Dockerfile": checkDockerfile, "compose.yaml": checkCompose,
	manifests: checkKubernetes,
}

// TestPinImages: "make pin-images" adds the digest that the registry says to each image, or replaces the one that is
// there, and changes nothing else; the files are then as right as before. An image that the registry does not have is
// an error.
func TestPinImages(t *testing.T) {
	files := deployed(t)
	dir, programs := t.TempDir(), t.TempDir()
	pinned := []string{"Dockerfile", "cloudbuild.yaml"}
	for _, name := range append(pinned, "Makefile") {
		write(t, filepath.Join(dir, name), []byte(files[name]))
	}
	path := "PATH=" + programs + ":$PATH make pin-images"
	for _, digit := range []string{"1", "2"} {
		digest := "@sha256:" + strings.Repeat(digit, 64)
		registry := "#!/bin/sh\n[ \"$1 $2 $3 $4 $5\" = '-C release tool gcrane digest' ] && echo sha256:" +
			strings.Repeat(digit, 64) + "\n"
		if err := os.WriteFile(filepath.Join(programs, "go"), []byte(registry), 0o700); err != nil {
			t.Fatal(err)
		}
		if out, err := shell(t, dir, path); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		changed := maps.Clone(files)
		for _, name := range pinned {
			changed[name] = string(read(t, filepath.Join(dir, name)))
			images := strings.Count(changed[name], digest)
			if bare := regexp.MustCompile(`@[a-z0-9:]{71}`).ReplaceAllString(changed[name], ""); images == 0 ||
				images != len(imageLine.FindAllString(files[name], -1)) ||
				bare != regexp.MustCompile(`@[a-z0-9:]{71}`).ReplaceAllString(files[name], "") {
				t.Errorf("%s: %d digests\n%s", name, images, changed[name])
			}
		}
		for _, name := range pinned {
			for _, problem := range checks[name](t, changed) {
				t.Errorf("%s: %s", name, problem)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(programs, "go"), []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := shell(t, dir, path); err == nil {
		t.Errorf("an unknown image: no error\n%s", out)
	}
}

// imageLine is a line of Dockerfile or cloudbuild.yaml that names an image which others publish.
var imageLine = regexp.MustCompile(`(?m)^(    name: |ARG GOLANG=)\S+`)

// TestMistakesAreFound: the checks find each of these.
func TestMistakesAreFound(t *testing.T) {
	files := deployed(t)
	for _, c := range mistakes {
		t.Run(c.file+", "+c.changed, func(t *testing.T) {
			if !strings.Contains(files[c.file], c.old) {
				t.Fatalf("%s has no %q", c.file, c.old)
			}
			changed := maps.Clone(files)
			changed[c.file] = strings.Replace(files[c.file], c.old, c.changed, 1)
			var all []string
			for _, check := range checks {
				all = append(all, check(t, changed)...)
			}
			if !strings.Contains(strings.Join(all, "\n"), c.says) || len(all) == 0 {
				t.Errorf("not found: %q", all)
			}
		})
	}
}

// exactImage is an image of one version, whose digest may follow; "make pin-images" adds it.
var exactImage = regexp.MustCompile(`^[a-z0-9./-]+:v?\d+\.\d+\.\d+[a-z0-9.-]*(@sha256:[0-9a-f]{64})?$`)

// goImage is the image of a Go version, with its digest if it has one: all files must have the same.
var goImage = regexp.MustCompile(`\bgolang:[\w.-]+(@[\w:]+)?`)

var mistakes = []change{
	// What Cloud Build would reject, or do otherwise than it looks.
	{"cloudbuild.yaml", "waitFor: [test]", "waitfor: [test]", "unknown field"},
	{"cloudbuild.yaml", "    timeout: 60s", "    timeOut: 60s", "unknown field"},
	{"cloudbuild.yaml", "options:", "option:", "unknown field"},
	{"cloudbuild.yaml", "    timeout: 60s", "    timeout: 1m", "invalid google.protobuf.Duration"},
	{"cloudbuild.yaml", "    timeout: 60s", "    timeout: 60", "unexpected token"},
	{"cloudbuild.yaml", "    timeout: 60s", "    timeout: -60s", "timeout"},
	{"cloudbuild.yaml", "machineType: E2_HIGHCPU_8", "machineType: E2_HIGHCPU_9", "invalid value"},
	{"cloudbuild.yaml", "logging: CLOUD_LOGGING_ONLY", "logging: LEGACY", "logging"},
	{"cloudbuild.yaml", "substitutionOption: MUST_MATCH", "substitutionOption: ALLOW_LOOSE", "substitutionOption"},
	{"cloudbuild.yaml", "waitFor: [release]", "waitFor: [relaese]", `waits for "relaese"`},
	{"cloudbuild.yaml", "waitFor: [check]", "waitFor: [release]", `waits for "release"`},
	{"cloudbuild.yaml", "  - id: test", "  - id: check", "twice"},
	{"cloudbuild.yaml", "  - id: test", "  - ID: test", "unknown field"},
	{"cloudbuild.yaml", "golang:1.26.8-bookworm", "golang:latest", "golang:latest"},
	{"cloudbuild.yaml", "golang:1.26.8-bookworm", "golang:1.26", "golang:1.26"},
	{"cloudbuild.yaml", "golang:1.26.8-bookworm", "golang:1.26.7-bookworm", "more than one Go"},
	{"cloudbuild.yaml", "google-cloud-cli:525.0.0-slim", "google-cloud-cli:slim", "google-cloud-cli:slim"},
	{"cloudbuild.yaml", "google-cloud-cli:525.0.0-slim", "google-cloud-cli:525.0.0-slim@sha256:c0ffee", "@sha256:c0ffee"},
	{"cloudbuild.yaml", "golang:1.26.8-bookworm", "golang:1.26.8-bookworm@sha256:" + strings.Repeat("0", 64),
		"more than one Go"},
	{"cloudbuild.yaml", `"VERSION=$_VERSION", "BUCKET=$_BUCKET"`, `"VERSION=$_VERSIN", "BUCKET=$_BUCKET"`, "$_VERSIN"},
	{"cloudbuild.yaml", `"PROJECT=$PROJECT_ID"`, `"PROJECT=$PROJECTID"`, "$PROJECTID"},
	{"cloudbuild.yaml", `  _SERVICE: "" `, "  _UNUSED: x\n  _SERVICE: \"\" ", "_UNUSED"},
	{"cloudbuild.yaml", "  _REGION: europe-west1 ", "  REGION: europe-west1 ", "REGION"},
	{"cloudbuild.yaml", `make release VERSION="$VERSION"`, `make release VERSION="$_VERSION"`, "$_VERSION"},
	{"cloudbuild.yaml", `make release VERSION="$VERSION"`, `make relaese VERSION="$VERSION"`, "relaese"},
	{"cloudbuild.yaml", `make release VERSION="$VERSION"`, `make release VERSION="$VER"`, "$VER is not set"},
	{"cloudbuild.yaml", `make release VERSION="$VERSION"`, `./scripts/release.sh "$VERSION"`, "release.sh"},
	{"cloudbuild.yaml", `verify-release VERSION="$VERSION" SUMS=`, `verify-release VERSION="$VERSION" SUM=`, "SUM"},
	{"cloudbuild.yaml", "go -C release tool gcrane", "go -C release tool crane", "crane"},
	{"cloudbuild.yaml", "set -eu\n      go vet", "go vet", "set -eu"},
	{"cloudbuild.yaml", "waitFor: [reproduce]", "waitFor: [check]", "does not wait for test"},
	{"cloudbuild.yaml", "waitFor: [reproduce]", "waitFor: [release]", "does not wait for reproduce"},
	{"cloudbuild.yaml", "waitFor: [sign]", "waitFor: [reproduce]", "does not wait for sign"},
	{"cloudbuild.yaml", "      exit 0\n      fi", "      exit 0", "script"},
	{"cloudbuild.yaml", "location: gs://$_BUCKET", "location: s3://$_BUCKET", "gs://"},
	{"cloudbuild.yaml", "timeout: 8700s", "timeout: 1200s", "longer than the build"},
	{"cloudbuild.yaml", "    script: |\n      #!/bin/sh\n      set -eu\n      go vet",
		"    args: [x]\n    script: |\n      #!/bin/sh\n      set -eu\n      go vet", "args"},
	{"cloudbuild.yaml", "  _BUCKET: \"\" ", "  _VERSION: \"\" ", "already defined"},
	{"Makefile", "\nrelease: ##", "\nreleases: ##", "release"},

	// What a builder of images would reject or warn of, or what differs from the image of a release.
	{"Dockerfile", "FROM scratch", "FORM scratch", "FORM"},
	{"Dockerfile", "FROM scratch", "FROM alpine:3.20", "scratch"},
	{"Dockerfile", "\nARG GOLANG=golang:1.26.8-bookworm", "\nARG GOLANG=golang:bookworm", "golang:bookworm"},
	{"Dockerfile", "$GOLANG AS", "golang:1.26.8-bookworm AS", "not on the image that is given"},
	{"Dockerfile", "\nARG GOLANG=golang:1.26.8-bookworm", "\nARG GOLANG=golang:1.26.7-bookworm", "more than one Go"},
	{"Dockerfile", "\nARG GOLANG=golang:1.26.8-bookworm", "\nARG GOLANG=golang:1.26.8-bookworm@sha256:c0ffee", "c0ffee"},
	{"Dockerfile", "--from=build", "--from=builder", "builder"},
	{"Dockerfile", "USER 65532:65532", "USER root", "User"},
	{"Dockerfile", "USER 65532:65532\n", "", "User"},
	{"Dockerfile", "XDG_DATA_HOME=/data", "XDG_DATA_HOME=/var/data", "Env"},
	{"Dockerfile", "ENV PATH=/usr/bin XDG_DATA_HOME=/data", "ENV PATH /usr/bin", "ENV"},
	{"Dockerfile", `ENTRYPOINT ["/usr/bin/leasehold"]`, "ENTRYPOINT /usr/bin/leasehold", "JSON"},
	{"Dockerfile", `ENTRYPOINT ["/usr/bin/leasehold"]`, `ENTRYPOINT ["/leasehold"]`, "Entrypoint"},
	{"Dockerfile", `CMD ["serve"]`, `CMD ["server"]`, "Cmd"},
	{"Dockerfile", `CMD ["/usr/bin/leasehold", "health"]`, `CMD /usr/bin/leasehold health`, "Healthcheck"}, // by a shell
	{"Dockerfile", "--timeout=5s", "--timeout=5m", "Healthcheck"},
	{"Dockerfile", "EXPOSE 8080/tcp", "EXPOSE 8000/tcp", "ExposedPorts"},
	{"Dockerfile", "ARG TARGETARCH\n", "", "TARGETARCH"},
	{"Dockerfile", `"linux/$TARGETARCH"`, `"linus/$TARGETARCH"`, "linus/"},
	{"Dockerfile", "-rootfs /rootfs", "-rootfs /root", "/rootfs"},
	{"Dockerfile", "-rootfs /rootfs", "-root /rootfs", "-root"},
	{"Dockerfile", "AS build", "as build", "casing"},
	{"Dockerfile", "github.com/google/licensecheck", "github.com/google/license", "github.com/google/license "},
	{".dockerignore", "/bin/", ".git", ".git"},

	// What docker compose would reject, or what would be open or could not work.
	{"compose.yaml", "read_only: true", "readonly: true", "readonly"},
	{"compose.yaml", "condition: service_healthy", "condition: service_health", "service_health"},
	{"compose.yaml", "condition: service_healthy", "condition: service_started", "service_healthy"},
	{"compose.yaml", "      dynamodb:\n        condition", "      dynamo:\n        condition", "dynamo"},
	{"compose.yaml", "<<: *leasehold", "<<: *leaseholds", "leaseholds"},
	{"compose.yaml", `"127.0.0.1:8080:8080"`, `"8080:8080"`, "127.0.0.1"},
	{"compose.yaml", `"127.0.0.1:8080:8080"`, `"127.0.0.1:8080:8088"`, "8088"},
	{"compose.yaml", `"127.0.0.1:8082:8080"`, `"127.0.0.1:8080:8080"`, "twice"},
	{"compose.yaml", "retries: 3", "retrys: 3", "retrys"},
	{"compose.yaml", "interval: 10s", "interval: ten", "interval"},
	{"compose.yaml", "[CMD, /usr/bin/leasehold, health]", "[CMD, curl, -f, http://127.0.0.1:8080/readyz]", "curl"},
	{"compose.yaml", "[CMD, /usr/bin/leasehold, health]", "[CMD-SHELL, leasehold health]", "CMD-SHELL"},
	{"compose.yaml", `--listening, "127.0.0.1:8000"]`, `--listening, "127.0.0.1:8001"]`, "8001"},
	{"compose.yaml", `volumes: ["data:/data"]`, `volumes: ["data:/var/data"]`, "/data"},
	{"compose.yaml", `volumes: ["data:/data"]`, `volumes: ["date:/data"]`, "date"},
	{"compose.yaml", "profiles: [firestore]", "profile: [firestore]", "profile"},
	{"compose.yaml", "http://dynamodb:8000", "http://dynamo:8000", "dynamo:8000"},
	{"compose.yaml", "FIRESTORE_EMULATOR_HOST: firestore:8081", "FIRESTORE_EMULATOR_HOST: firestore:8080",
		"firestore:8080"},
	{"compose.yaml", "cap_drop: [ALL]", "privileged: true", "privileged"},
	{"compose.yaml", "LEASEHOLD_LISTEN: 0.0.0.0:8080", "LEASEHOLD_LISTEN: 127.0.0.1:8080", "127.0.0.1"},

	// What Kubernetes would reject or ignore, or what could not work together.
	{manifests, "maxUnavailable: 0,", "maxUnavailabel: 0,", "maxUnavailabel"},
	{manifests, "maxUnavailable: 0,", "maxUnavailable: 1,", "rollingUpdate"},
	{manifests, "matchLabelKeys", "matchLabelKey", "matchLabelKey"},
	{manifests, "replicas: 2", "replicas: 1", "replicas"},
	{manifests, "replicas: 2", `replicas: "2"`, "replicas"},
	{manifests, "selector: { app: leasehold }", "selector: { app: lease }", "Service selects"},
	{manifests, "targetPort: http", "targetPort: web", "Service sends"},
	{manifests, "apiVersion: policy/v1", "apiVersion: policy/v1beta1", "policy/v1beta1"},
	{manifests, "kind: PodDisruptionBudget", "kind: PodDisruptionBudgets", "PodDisruptionBudgets"},
	{manifests, "  maxUnavailable: 1\n", "  minAvailable: 2\n", "budget"},
	{manifests, "runAsUser: 65532", "runAsUser: 1000", "securityContext"},
	{manifests, "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "securityContext"},
	{manifests, "drop: [ALL]", "drop: [NET_RAW]", "securityContext"},
	{manifests, "args: [serve]", "args: [server]", "it runs"},
	{manifests, "leasehold@sha256:" + strings.Repeat("0", 64), "leasehold:v1.2.3", "it runs"},
	{manifests, "leasehold@sha256:0", "leasehold@sha256:", "it runs"},
	{manifests, "containerPort: 8080", "containerPort: 8081", "listens"},
	{manifests, "path: /readyz, port: http", "path: /readyz, port: https", "readiness probe"},
	{manifests, "livenessProbe:", "liveProbe:", "liveProbe"},
	{manifests, "value: 450MiB", "value: 512MiB", "GOMEMLIMIT"},
	{manifests, "limits: { memory: 512Mi }", "limits: { cpu: 250m, memory: 512Mi }", "processor"},
	{manifests, "secretKeyRef: {", "secretRef: {", "secretRef"},
	{manifests, "automountServiceAccountToken: false", "automountServiceAccountToken: true", "token"},
}
