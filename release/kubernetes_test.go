package main

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

const manifests = "infra/kubernetes/leasehold.yaml"

// apiVersions are those of the types with which it is read.
var apiVersions = map[string]string{"Deployment": "apps/v1", "Service": "v1", "PodDisruptionBudget": "policy/v1"}

// manifest is what the file has for Kubernetes.
type manifest struct {
	deployment appsv1.Deployment
	service    corev1.Service
	budget     policyv1.PodDisruptionBudget
}

// checkKubernetes reads the manifest with the types of Kubernetes, strictly, and looks at what its parts say of each
// other. tests/kubernetes_test.go runs the server with what it says.
func checkKubernetes(_ *testing.T, files deployment) (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	var m manifest
	kinds := map[string]any{"Deployment": &m.deployment, "Service": &m.service, "PodDisruptionBudget": &m.budget}
	for part := range strings.SplitSeq(files[manifests], "\n---\n") {
		var head struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal([]byte(part), &head); err != nil {
			return []string{err.Error()}
		}
		into := kinds[head.Kind]
		if into == nil {
			return []string{fmt.Sprintf("the kind %q is unknown, or there twice", head.Kind)}
		}
		delete(kinds, head.Kind)
		if err := yaml.UnmarshalStrict([]byte(part), into); err != nil {
			return append(problems, head.Kind+": "+err.Error())
		}
		if want := apiVersions[head.Kind]; want != head.APIVersion {
			say("%s is of %s, want %s", head.Kind, head.APIVersion, want)
		}
	}
	if len(kinds) > 0 {
		return []string{fmt.Sprintf("missing: %v", slices.Sorted(maps.Keys(kinds)))}
	}
	problems = append(problems, m.checkTogether()...)
	pod := m.deployment.Spec.Template.Spec
	if len(pod.Containers) != 1 {
		return append(problems, fmt.Sprintf("%d containers", len(pod.Containers)))
	}
	problems = append(problems, checkHardened(pod, pod.Containers[0])...)
	return append(problems, checkContainer(pod.Containers[0])...)
}

// checkTogether: the parts find the same pods, and a rollout or the maintenance of a node never takes the last one.
func (m manifest) checkTogether() (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	spec := m.deployment.Spec
	labels := spec.Template.Labels
	selectors := map[string]map[string]string{"Service": m.service.Spec.Selector}
	if spec.Selector == nil || m.budget.Spec.Selector == nil {
		return []string{"the Deployment and the PodDisruptionBudget need a selector"}
	}
	selectors["Deployment"], selectors["PodDisruptionBudget"] = spec.Selector.MatchLabels,
		m.budget.Spec.Selector.MatchLabels
	for i, c := range spec.Template.Spec.TopologySpreadConstraints {
		selectors["spread "+strconv.Itoa(i)] = c.LabelSelector.MatchLabels
	}
	for name, s := range selectors {
		if len(s) == 0 || !reflect.DeepEqual(s, labels) {
			say("%s selects %v, the pods have %v", name, s, labels)
		}
	}
	if p := m.service.Spec.Ports; len(p) != 1 || p[0].TargetPort.String() != "http" {
		say("the Service sends to %v, the container's port is named http", p)
	}
	if len(selectors) < 4 {
		say("the pods are not spread")
	}
	if spec.Replicas == nil || *spec.Replicas < 2 {
		say("replicas: two at least, or there is none while it is replaced")
	}
	r := spec.Strategy.RollingUpdate
	if r == nil || r.MaxUnavailable == nil || r.MaxUnavailable.String() != "0" || r.MaxSurge == nil ||
		r.MaxSurge.IntValue() < 1 {
		say("rollingUpdate %v: a rollout must not take one away before another is ready", r)
	}
	if b := m.budget.Spec; b.MinAvailable != nil || b.MaxUnavailable == nil || b.MaxUnavailable.String() != "1" {
		say("the budget %v must let one be taken away, and no more", b)
	}
	return problems
}

// checkHardened: as the production example for Docker is in docs/guides/containers.md.
func checkHardened(pod corev1.PodSpec, c corev1.Container) (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	is := func(b *bool, want bool) bool { return b != nil && *b == want }
	p, s := pod.SecurityContext, c.SecurityContext
	if p == nil || !is(p.RunAsNonRoot, true) || p.RunAsUser == nil || *p.RunAsUser != user || p.RunAsGroup == nil ||
		*p.RunAsGroup != user || p.SeccompProfile == nil ||
		p.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		say("the pod's securityContext: %+v; the image's user is %d", p, user)
	}
	if s == nil || !is(s.AllowPrivilegeEscalation, false) || !is(s.ReadOnlyRootFilesystem, true) ||
		s.Privileged != nil || s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
		s.Capabilities.Add != nil {
		say("the container's securityContext: %+v", s)
	}
	if !is(pod.AutomountServiceAccountToken, false) || !is(pod.EnableServiceLinks, false) || pod.HostNetwork {
		say("the pod has a token, variables of other services or the node's network")
	}
	if len(pod.Volumes) > 0 {
		say("it needs no volumes: %v", pod.Volumes)
	}
	return problems
}

// byDigest is an image that cannot become another one.
var byDigest = regexp.MustCompile(`^[^@\s]+@sha256:[0-9a-f]{64}$`)

// checkContainer: it runs what the image has, listens where it is asked, and has room.
func checkContainer(c corev1.Container) (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if c.Command != nil || !slices.Equal(c.Args, command) || !byDigest.MatchString(c.Image) {
		say("it runs %v %v of %s", c.Command, c.Args, c.Image)
	}
	env, ports := map[string]string{}, map[string]string{}
	for _, v := range c.Env {
		if _, twice := env[v.Name]; twice || (v.Value == "") == (v.ValueFrom == nil) {
			say("%s is there twice, or has no value", v.Name)
		}
		env[v.Name] = v.Value
	}
	for _, p := range c.Ports {
		ports[p.Name] = strconv.Itoa(int(p.ContainerPort))
	}
	if env["LEASEHOLD_LISTEN"] != "0.0.0.0:"+ports["http"] || ports["http"] != port {
		say("it listens on %s, the port http is %s", env["LEASEHOLD_LISTEN"], ports["http"])
	}
	for name, p := range map[string]*corev1.Probe{"readiness": c.ReadinessProbe, "liveness": c.LivenessProbe} {
		if p == nil || p.HTTPGet == nil || p.HTTPGet.Port.String() != "http" || p.TimeoutSeconds == 0 ||
			p.FailureThreshold == 0 || p.PeriodSeconds == 0 {
			say("the %s probe: %v", name, p)
		}
	}
	limit, asked := c.Resources.Limits.Memory(), c.Resources.Requests.Memory()
	soft, err := strconv.ParseInt(strings.TrimSuffix(env["GOMEMLIMIT"], "MiB"), 10, 64)
	if err != nil || soft<<20 >= limit.Value() || soft<<20 < limit.Value()*3/4 || !asked.Equal(*limit) {
		say("memory: asked for %v, limit %v, GOMEMLIMIT %s", asked, limit, env["GOMEMLIMIT"])
	}
	if !c.Resources.Limits.Cpu().IsZero() || c.Resources.Requests.Cpu().IsZero() {
		say("processor: asked for %v, limit %v", c.Resources.Requests.Cpu(), c.Resources.Limits.Cpu())
	}
	return problems
}
