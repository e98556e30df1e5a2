//go:build unix

package tests

import (
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/functions/settings"
)

// variable is an environment variable of a container.
type variable struct {
	Name, Value string
	ValueFrom   any `yaml:"valueFrom"`
}

// probe is how Kubernetes asks a container.
type probe struct {
	HTTPGet        struct{ Path string } `yaml:"httpGet"`
	TimeoutSeconds int                   `yaml:"timeoutSeconds"`
}

// pod is what these tests need of infra/kubernetes/leasehold.yaml. The module release checks the whole file.
type pod struct {
	Grace      int `yaml:"terminationGracePeriodSeconds"`
	Containers []struct {
		Env            []variable
		ReadinessProbe probe `yaml:"readinessProbe"`
		LivenessProbe  probe `yaml:"livenessProbe"`
	}
}

// deployedPod reads the manifest.
func deployedPod(t *testing.T) pod {
	t.Helper()
	text, err := os.ReadFile("../infra/kubernetes/leasehold.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var part struct {
			Kind string
			Spec struct{ Template struct{ Spec pod } }
		}
		if err := d.Decode(&part); err != nil {
			if errors.Is(err, io.EOF) {
				t.Fatal("there is no Deployment")
			}
			t.Fatal(err)
		}
		if part.Kind == "Deployment" {
			return part.Spec.Template.Spec
		}
	}
}

// environ is the environment that variables make. What comes from a secret has some value.
func environ(all []variable) (env []string) {
	for _, v := range all {
		if v.ValueFrom != nil {
			v.Value = "hunter2"
		}
		env = append(env, v.Name+"="+v.Value)
	}
	return env
}

// TestKubernetesManifest: the settings of the manifest are settings, its times fit to each other, and a server that
// has them answers the probes, is not ready after SIGTERM, and stops in order. So are the settings for other stores, as
// docs/guides/kubernetes.md has them.
func TestKubernetesManifest(t *testing.T) {
	t.Parallel()
	p := deployedPod(t)
	c := p.Containers[0]
	env := environ(c.Env)
	checkTimes(t, p, env)
	page, err := os.ReadFile("../docs/guides/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	stores := 0
	for _, m := range regexp.MustCompile("(?s)```yaml\n(env:\n.*?)```").FindAllSubmatch(page, -1) {
		var changed struct{ Env []variable }
		if err := yaml.Unmarshal(m[1], &changed); err != nil {
			t.Fatal(err)
		}
		others := slices.DeleteFunc(slices.Clone(c.Env), func(v variable) bool {
			return v.Name == "LEASEHOLD_STORE" || strings.HasPrefix(v.Name, "LEASEHOLD_REDIS_")
		})
		checkTimes(t, p, environ(append(others, changed.Env...)))
		stores++
	}
	if stores != 2 {
		t.Errorf("docs/guides/kubernetes.md has the settings of %d other stores, want 2", stores)
	}

	redis := redistest.StandIn(t)
	for i, kv := range env {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case "LEASEHOLD_LISTEN":
			env[i] = name + "=127.0.0.1:0"
		case "LEASEHOLD_REDIS_ADDR":
			env[i] = name + "=" + redis.URL()
		case "LEASEHOLD_REDIS_PASSWORD":
			env[i] = name + "=" // the stand-in has none
		}
	}
	server := launch(t, env, "serve")
	for _, path := range []string{c.ReadinessProbe.HTTPGet.Path, c.LivenessProbe.HTTPGet.Path} {
		var r reply
		for range 30 { // a probe that fails is asked again
			if r = ask(t, anew(), "GET", server.url+path, ""); r.status == 200 {
				break
			}
		}
		if r.status != 200 {
			t.Errorf("%s: %+v\n%s", path, r, server.stderr.Bytes())
		}
	}
	server.terminate(t)
	server.terminate(t) // the delay need not pass
	server.stops(t)
}

// checkTimes: Kubernetes gives a pod more time than it takes to stop, a request may end in it, and a probe waits as
// long as the server lets it.
func checkTimes(t *testing.T, p pod, env []string) {
	t.Helper()
	s, err := settings.Load(settings.Serve, env, nil)
	if err != nil {
		t.Fatalf("%v\n%v", err, env)
	}
	const rest = 5 * time.Second // for the last writes and metrics
	if grace := time.Duration(p.Grace) * time.Second; grace < s.ShutdownDelay+s.ShutdownTimeout+rest {
		t.Errorf("terminationGracePeriodSeconds %v, delay %v, timeout %v", grace, s.ShutdownDelay, s.ShutdownTimeout)
	}
	if s.ShutdownDelay < 5*time.Second || s.ShutdownTimeout <= s.RequestTimeout {
		t.Errorf("delay %v, timeout %v, a request takes %v", s.ShutdownDelay, s.ShutdownTimeout, s.RequestTimeout)
	}
	ready, alive := p.Containers[0].ReadinessProbe, p.Containers[0].LivenessProbe
	if ready.HTTPGet.Path != "/readyz" || alive.HTTPGet.Path != "/healthz" || ready.TimeoutSeconds <= 5 {
		t.Errorf("readiness %+v, liveness %+v", ready, alive)
	}
}
