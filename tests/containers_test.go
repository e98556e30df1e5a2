package tests

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// composeService is what this test needs of a service of compose.yaml. The module release checks the whole file.
type composeService struct {
	Command     []string
	Environment map[string]string
	Profiles    []string
	Healthcheck struct{ Test []string }
}

// composed reads compose.yaml.
func composed(t *testing.T) map[string]composeService {
	t.Helper()
	text, err := os.ReadFile("../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Services map[string]composeService }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Services
}

var listenAnywhere = regexp.MustCompile(`^0\.0\.0\.0:\d+$`)

// TestComposeFile: the commands of compose.yaml work together as they are there, with their variables and those of the
// image, on other ports. A service is healthy by its own health check once it runs, and not before.
func TestComposeFile(t *testing.T) {
	t.Parallel()
	services := composed(t)
	if len(services) < 5 {
		t.Fatalf("%d services", len(services))
	}
	running := map[string]string{} // addresses, by services' names
	launchService := func(t *testing.T, name string) *process {
		t.Helper()
		s := services[name]
		env := imageVariables(t)
		for key, value := range s.Environment {
			if listenAnywhere.MatchString(value) {
				value = "0.0.0.0:0"
			}
			for other, address := range running {
				value = regexp.MustCompile(`\b`+other+`:\d+`).ReplaceAllString(value, address)
			}
			env = append(env, key+"="+value)
		}
		args := slices.Clone(s.Command)
		for i, a := range args {
			args[i] = listenAnywhere.ReplaceAllString(a, "0.0.0.0:0")
		}
		p := launch(t, env, args...)
		running[name] = strings.TrimPrefix(p.url, "http://")
		checkHealthOf(t, name, s, env, running[name])
		return p
	}
	for _, name := range slices.Sorted(maps.Keys(services)) {
		if services[name].Command[0] == "emulate" {
			launchService(t, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(services)) {
		if services[name].Command[0] != "serve" {
			continue
		}
		p := launchService(t, name)
		if code, stdout, stderr := run(t, nil, "lock", "acquire", "k", "--quiet", "--server", p.url); code != 0 {
			t.Errorf("%s: %d %s %s", name, code, stdout, stderr)
		}
	}
}

// checkHealthOf runs the health check of a service, which listens on address.
func checkHealthOf(t *testing.T, name string, s composeService, env []string, address string) {
	t.Helper()
	closedPort := "127.0.0.1:1"
	for at, want := range map[string]int{address: 0, closedPort: 1} {
		args := slices.Clone(s.Healthcheck.Test[2:])
		if i := slices.Index(args, "--listening"); i >= 0 {
			args[i+1] = at
		} else {
			env = append(slices.Clone(env), "LEASEHOLD_LISTEN="+at) // the last one counts
		}
		if code, stdout, stderr := run(t, env, args...); code != want {
			t.Errorf("%s: health at %s: %d %s %s", name, at, code, stdout, stderr)
		}
	}
}

// imageVariables are the variables that the Dockerfile sets, with a folder of the test for the data.
func imageVariables(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^ENV PATH=\S+ (XDG_DATA_HOME)=/data$`).FindStringSubmatch(string(text))
	if m == nil {
		t.Fatal("the Dockerfile sets other variables")
	}
	return []string{m[1] + "=" + t.TempDir(), "HOME="}
}

// TestImageCommand: what the image runs without arguments listens on the port that the platform names, and keeps its
// data in the image's folder.
func TestImageCommand(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("other systems have their data elsewhere")
	}
	env := imageVariables(t)
	data := strings.TrimPrefix(env[0], "XDG_DATA_HOME=")
	p := launch(t, append(env, "PORT=0"), "serve")
	if code, stdout, stderr := run(t, nil, "lock", "acquire", "k", "--quiet", "--server", p.url); code != 0 {
		t.Errorf("%d %s %s", code, stdout, stderr)
	}
	if entries, err := os.ReadDir(filepath.Join(data, "leasehold")); err != nil || len(entries) == 0 {
		t.Errorf("%s: %v, %v", data, entries, err)
	}
}
