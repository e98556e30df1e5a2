package main

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// checkCompose reads compose.yaml as docker compose does, with all profiles, and looks at how the services reach each
// other and who reaches them. tests/containers_test.go runs their commands.
func checkCompose(t *testing.T, files deployment) (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  "..",
		ConfigFiles: []types.ConfigFile{{Filename: "compose.yaml", Content: []byte(files["compose.yaml"])}},
		Environment: types.Mapping{},
	}, loader.WithProfiles([]string{"*"}))
	if err != nil {
		return []string{err.Error()}
	}
	published := map[string]string{}
	for name, s := range project.Services {
		if len(s.Command) == 0 {
			say("%s has no command", name)
			continue
		}
		listens := listensOn(s)
		host, port, _ := strings.Cut(listens, ":")
		if host != "0.0.0.0" {
			say("%s listens on %q: other containers cannot reach it", name, listens)
		}
		if s.Image != "leasehold" || s.Build == nil || len(s.Entrypoint) > 0 || s.User != "" {
			say("%s must be built from the Dockerfile, with its entrypoint and user", name)
		}
		if !s.ReadOnly || s.Privileged || !slices.Contains(s.CapDrop, "ALL") ||
			!slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			say("%s: read_only %v, privileged %v, cap_drop %v, security_opt %v", name, s.ReadOnly, s.Privileged,
				s.CapDrop, s.SecurityOpt)
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				say("%s: the port %s is published to other machines: want 127.0.0.1", name, p.Published)
			}
			if strconv.FormatUint(uint64(p.Target), 10) != port {
				say("%s publishes port %d, but listens on %s", name, p.Target, listens)
			}
			if other, ok := published[p.Published]; ok {
				say("%s and %s: port %s is published twice", name, other, p.Published)
			}
			published[p.Published] = name
		}
		problems = append(problems, checkHealth(s, port)...)
		for other, d := range s.DependsOn {
			if d.Condition != types.ServiceConditionHealthy {
				say("%s depends on %s with %s, want service_healthy: it must be there at the start", name, other, d.Condition)
			}
		}
		problems = append(problems, checkPeers(project, s)...)
		stored := s.Command[0] == "serve" && !slices.Contains(s.Command, "--store")
		if mounted := slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool {
			return v.Target == "/data" && v.Type == types.VolumeTypeVolume && !v.ReadOnly
		}); mounted != stored {
			say("%s: data in a file needs a volume on /data, and no other service does: %v", name, s.Volumes)
		}
	}
	return problems
}

// listensOn is the address of a service.
func listensOn(s types.ServiceConfig) string {
	if i := slices.Index(s.Command, "--listen"); i >= 0 && i+1 < len(s.Command) {
		return s.Command[i+1]
	}
	return value(s, "LEASEHOLD_LISTEN")
}

func value(s types.ServiceConfig, name string) string {
	if v := s.Environment[name]; v != nil {
		return *v
	}
	return ""
}

// checkHealth: the image has one program only, which asks the port that the service listens on.
func checkHealth(s types.ServiceConfig, port string) (problems []string) {
	h := s.HealthCheck
	if h == nil || len(h.Test) < 3 || h.Test[0] != "CMD" || h.Test[1] != entrypoint[0] || h.Test[2] != "health" {
		return []string{fmt.Sprintf("%s: the health check must be CMD %s health, it is %v", s.Name, entrypoint[0], h)}
	}
	if h.Interval == nil || h.Timeout == nil || h.Retries == nil || *h.Timeout >= *h.Interval {
		problems = append(problems, s.Name+": the health check needs an interval, a shorter timeout, and retries")
	}
	if i := slices.Index(h.Test, "--listening"); i >= 0 && !slices.Equal(h.Test[i+1:], []string{"127.0.0.1:" + port}) {
		problems = append(problems, fmt.Sprintf("%s: the health check asks %v, the service listens on %s", s.Name,
			h.Test[i+1:], port))
	} else if i < 0 && s.Command[0] != "serve" {
		problems = append(problems, s.Name+": an emulator is asked with --listening")
	}
	return problems
}

// checkPeers: a service reaches others by their names, on the ports on which they listen, and waits for them.
func checkPeers(project *types.Project, s types.ServiceConfig) (problems []string) {
	for name := range s.Environment {
		address := value(s, name)
		if u, err := url.Parse(address); err == nil && u.Host != "" {
			address = u.Host
		} else if name != "FIRESTORE_EMULATOR_HOST" {
			continue
		}
		host, port, _ := strings.Cut(address, ":")
		other, ok := project.Services[host]
		_, waits := s.DependsOn[host]
		if !ok || !waits || !strings.HasSuffix(listensOn(other), ":"+port) || !slices.Equal(other.Profiles, s.Profiles) {
			problems = append(problems, fmt.Sprintf("%s: %s is %s, which is no service that it depends on, or no port of it",
				s.Name, name, address))
		}
	}
	return problems
}
