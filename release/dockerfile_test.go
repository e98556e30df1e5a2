package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerui"
	"github.com/opencontainers/go-digest"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/mod/modfile"
)

// offline takes the place of the registries: what an image has is not needed to look at what is made of it. asked are
// the images that were asked for.
type offline struct{ asked *[]string }

func (o offline) ResolveImageConfig(_ context.Context, ref string, _ sourceresolver.Opt) (string, digest.Digest, []byte,
	error) {
	config := []byte(
		`{"architecture":"amd64","os":"linux","config":{"Env":["PATH=/usr/local/go/bin:/usr/bin:/bin"]},"rootfs":{"type":"layers","diff_ids":[]}}`)
	*o.asked = append(*o.asked, ref)
	return ref, digest.FromBytes(config), config, nil
}

// checkDockerfile lets BuildKit read the Dockerfile and complain, as "docker build --check" does, and compares the
// image that it would make with that of a release.
func checkDockerfile(t *testing.T, files deployment) (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	text := []byte(files["Dockerfile"])
	sources := llb.NewSourceMap(nil, "Dockerfile", "Dockerfile", text)
	sources.Definition = &llb.Definition{}
	target := ocispecs.Platform{OS: "linux", Architecture: "arm64"}
	var built []string
	var given map[string]string // --build-arg
	option := func() dockerfile2llb.ConvertOpt {
		built = nil
		return dockerfile2llb.ConvertOpt{
			Config: dockerui.Config{BuildPlatforms: []ocispecs.Platform{{OS: "linux", Architecture: "amd64"}},
				BuildArgs: given},
			SourceMap:      sources,
			TargetPlatform: &target,
			MetaResolver:   offline{&built},
		}
	}
	lint, err := dockerfile2llb.DockerfileLint(t.Context(), text, option())
	if err != nil {
		return []string{err.Error()}
	}
	for _, w := range lint.Warnings {
		say("%s: %s", w.RuleName, w.Detail)
	}
	if lint.Error != nil {
		return append(problems, lint.Error.Message)
	}
	//nolint:dogsled // its other results are for builds
	_, image, _, _, err := dockerfile2llb.Dockerfile2LLB(t.Context(), text, option())
	if err != nil {
		return append(problems, err.Error())
	}
	if len(built) != 1 || !exactImage.MatchString(built[0]) {
		say("it is built on %q, want an exact version of Go", built)
	}
	given = map[string]string{"GOLANG": "registry.example/golang:1.2.3@sha256:" + strings.Repeat("1", 64)}
	if _, _, _, _, err := dockerfile2llb.Dockerfile2LLB(t.Context(), text, option()); err != nil || len(built) != 1 ||
		built[0] != given["GOLANG"] {
		say("it is built on %q, and not on the image that is given: %v", built, err)
	}
	ports := map[string]struct{}{port + "/tcp": {}}
	var asks healthcheck
	if h := image.Config.Healthcheck; h != nil {
		asks = healthcheck{h.Test, h.Interval, h.Timeout, h.StartPeriod, h.Retries}
	}
	for name, pair := range map[string][2]any{
		"User":         {image.Config.User, fmt.Sprintf("%d:%d", user, user)},
		"Env":          {image.Config.Env, imageEnv},
		"Entrypoint":   {image.Config.Entrypoint, entrypoint},
		"Cmd":          {image.Config.Cmd, command},
		"ExposedPorts": {image.Config.ExposedPorts, ports},
		"WorkingDir":   {image.Config.WorkingDir, "/"},
		"StopSignal":   {image.Config.StopSignal, "SIGTERM"},
		"Healthcheck":  {asks, health},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			say("%s is %v, in the image of a release %v", name, pair[0], pair[1])
		}
	}

	parsed, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return append(problems, err.Error())
	}
	stages, _, err := instructions.Parse(parsed.AST, linter.New(&linter.Config{}))
	if err != nil {
		return append(problems, err.Error())
	}
	if len(stages) != 2 {
		say("it has %d stages; want one on Go, and one on scratch", len(stages))
	}
	last := stages[len(stages)-1]
	if last.BaseName != "scratch" {
		say("the image is based on %q, that of a release on scratch", last.BaseName)
	}
	root := ""
	var args []string
	for _, c := range stages[0].Commands {
		if arg, ok := c.(*instructions.ArgCommand); ok {
			args = append(args, arg.Args[0].Key)
		}
		if run, ok := c.(*instructions.RunCommand); ok {
			line := strings.Join(run.CmdLine, " ")
			for _, m := range substitution.FindAllStringSubmatch(line, -1) {
				if !slices.Contains(args, m[1]) {
					say("RUN uses $%s, which no ARG before it declares", m[1])
				}
			}
			found, more := checkRun(line, files)
			root, problems = root+found, append(problems, more...)
		}
	}
	if copied, ok := last.Commands[0].(*instructions.CopyCommand); !ok || root == "" || copied.From != stages[0].Name ||
		!slices.Equal(copied.SourcePaths, []string{root + "/"}) || copied.DestPath != "/" {
		say("what the tool writes, %q, is not what is copied to /: %v", root, last.Commands[0])
	}
	if regexp.MustCompile(`(?m)^/?\.git/?$`).MatchString(files[".dockerignore"]) {
		say(".dockerignore leaves .git out, without which the program does not know its commit")
	}
	return problems
}

// checkRun looks at what the first stage runs. It returns the folder that the release tool writes.
func checkRun(line string, files deployment) (root string, problems []string) {
	mod, err := modfile.Parse("go.mod", []byte(files["release/go.mod"]), nil)
	if err != nil {
		return "", []string{err.Error()}
	}
	for call := range strings.SplitSeq(line, " && ") {
		if args, ok := strings.CutPrefix(call, "go run -C release . "); ok {
			args = strings.NewReplacer(`"`, "", "$TARGETARCH", "arm64", " $VERSION", "").Replace(args)
			o, err := parse(strings.Fields(args), io.Discard)
			if err != nil {
				problems = append(problems, err.Error())
				continue
			}
			root = o.rootfs
		}
		if args, ok := strings.CutPrefix(call, "go -C release mod download "); ok {
			for path := range strings.FieldsSeq(args) {
				if !slices.ContainsFunc(mod.Require, func(r *modfile.Require) bool { return r.Mod.Path == path }) {
					problems = append(problems, fmt.Sprintf("release/go.mod does not require %s : it cannot be downloaded", path))
				}
			}
		}
	}
	return root, problems
}
