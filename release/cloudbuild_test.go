package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/cloudbuild/apiv1/v2/cloudbuildpb"
	"go.yaml.in/yaml/v3"
	"golang.org/x/mod/modfile"
	"google.golang.org/protobuf/encoding/protojson"
	"mvdan.cc/sh/v3/syntax"
)

// builtins are the substitutions that Cloud Build has for every build.
var builtins = []string{"PROJECT_ID", "PROJECT_NUMBER", "BUILD_ID", "LOCATION"}

// substitution is a use of one, with $$ for what is none.
var substitution = regexp.MustCompile(`\$\$|\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?`)

// commands are those that the images of the steps have, as far as they are used here; beside what is built into a
// shell.
var commands = map[string][]string{
	"golang":           {"go", "make", "git", "tar", "mkdir", "cat"},
	"google-cloud-cli": {"gcloud", "cat", "dist/release"}, // the tool, which a step before has built
}

var shellBuiltins = []string{"set", "[", "echo", "exit", "cd", "export", "test", "true"}

// checkCloudBuild reads cloudbuild.yaml as the service does, into the message of its API, and looks at what the service
// would find out only while it builds.
func checkCloudBuild(_ *testing.T, files deployment) (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	var tree map[string]any
	if err := yaml.Unmarshal([]byte(files["cloudbuild.yaml"]), &tree); err != nil {
		return []string{err.Error()}
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return []string{err.Error()}
	}
	var build cloudbuildpb.Build
	if err := protojson.Unmarshal(text, &build); err != nil {
		return []string{err.Error()}
	}
	if build.GetOptions().GetLogging() != cloudbuildpb.BuildOptions_CLOUD_LOGGING_ONLY {
		say("options.logging must be CLOUD_LOGGING_ONLY: a service account of one's own has no bucket for logs")
	}
	if build.GetOptions().GetSubstitutionOption() != cloudbuildpb.BuildOptions_MUST_MATCH {
		say("options.substitutionOption must be MUST_MATCH: the service must reject unknown substitutions")
	}

	// Substitutions: all are declared, all are used. Scripts have none.
	used := map[string]bool{}
	for _, step := range tree["steps"].([]any) {
		delete(step.(map[string]any), "script")
	}
	declared := build.GetSubstitutions()
	delete(tree, "substitutions")
	rest, err := json.Marshal(tree)
	if err != nil {
		return []string{err.Error()}
	}
	for _, m := range substitution.FindAllStringSubmatch(string(rest), -1) {
		name := m[1]
		used[name] = true
		if _, ok := declared[name]; m[0] != "$$" && !ok && !slices.Contains(builtins, name) {
			say("$%s is neither declared nor one of Cloud Build's", name)
		}
	}
	for name := range declared {
		if !regexp.MustCompile(`^_[A-Z0-9_]+$`).MatchString(name) {
			say("the substitution %s must begin with _", name)
		}
		if !used[name] {
			say("the substitution %s is used nowhere", name)
		}
	}

	// Steps: unique names, exact images, what they wait for, how long they may take.
	waits := map[string][]string{}        // all that a step waits for
	longest := map[string]time.Duration{} // until it has ended
	for _, s := range build.GetSteps() {
		id := s.GetId()
		if id == "" || waits[id] != nil {
			say("a step has no id, or %q is there twice", id)
		}
		if !exactImage.MatchString(s.GetName()) {
			say("%s: the image %q names no exact version", id, s.GetName())
		}
		limit := s.GetTimeout().AsDuration()
		if limit <= 0 {
			say("%s: timeout %v", id, limit)
		}
		waits[id] = []string{}
		for _, other := range s.GetWaitFor() {
			if _, ok := waits[other]; !ok || other == id {
				say("%s waits for %q, which is no step before it", id, other)
				continue
			}
			waits[id] = append(append(waits[id], other), waits[other]...)
			longest[id] = max(longest[id], longest[other])
		}
		if len(s.GetWaitFor()) == 0 && len(waits) > 1 {
			say("%s does not say what it waits for", id)
		}
		if longest[id] += limit; longest[id] > build.GetTimeout().AsDuration() {
			say("%s: it may take until %v, longer than the build, which has %v", id, longest[id],
				build.GetTimeout().AsDuration())
		}
		if s.GetScript() == "" || s.GetArgs() != nil || s.GetEntrypoint() != "" {
			say("%s: a step has a script, and neither args nor an entrypoint beside it", id)
		}
		problems = append(problems, checkScript(s, files)...)
	}
	for last, first := range map[string][]string{
		"sign": {"reproduce"}, "push": {"test", "reproduce", "sign"}, "deploy": {"test", "reproduce", "sign", "push"},
	} {
		for _, f := range first {
			if !slices.Contains(waits[last], f) {
				say("%s does not wait for %s", last, f)
			}
		}
	}
	if where := build.GetArtifacts().GetObjects().GetLocation(); !strings.HasPrefix(where, "gs://") ||
		len(build.GetArtifacts().GetObjects().GetPaths()) == 0 {
		say("artifacts.objects: location %q must begin with gs://, and paths must name files", where)
	}
	images := goImage.FindAllString(files["cloudbuild.yaml"]+files["Dockerfile"], -1)
	slices.Sort(images)
	if images = slices.Compact(images); len(images) != 1 {
		say("cloudbuild.yaml and Dockerfile have more than one Go: %q", images)
	}
	return problems
}

// checkScript looks at the script of a step: it stops at errors, its variables are set, and what it calls is there.
func checkScript(s *cloudbuildpb.BuildStep, files deployment) (problems []string) {
	say := func(format string, args ...any) {
		problems = append(problems, s.GetId()+": "+fmt.Sprintf(format, args...))
	}
	if !strings.HasPrefix(s.GetScript(), "#!/bin/sh\nset -eu\n") {
		say("the script must begin with #!/bin/sh and set -eu")
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(s.GetScript()), "script")
	if err != nil {
		say("%v", err)
		return problems
	}
	known := []string{"PWD", "HOME"}
	for _, kv := range s.GetEnv() {
		name, _, ok := strings.Cut(kv, "=")
		if !ok {
			say("env %q is no NAME=VALUE", kv)
		}
		known = append(known, name)
	}
	image := s.GetName()[strings.LastIndex(s.GetName(), "/")+1:]
	image, _, _ = strings.Cut(image, ":")
	syntax.Walk(file, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.ParamExp:
			if !slices.Contains(known, n.Param.Value) {
				say("$%s is not set: env lists the variables of a script, which has no substitutions", n.Param.Value)
			}
		case *syntax.CallExpr:
			for _, a := range n.Assigns {
				known = append(known, a.Name.Value)
			}
			var words []string
			for _, w := range n.Args {
				words = append(words, literal(w))
			}
			if len(words) == 0 || slices.Contains(shellBuiltins, words[0]) {
				break
			}
			if !slices.Contains(commands[image], words[0]) {
				say("the image %s has no command %q", image, words[0])
			}
			problems = append(problems, checkCall(s.GetId(), words, files)...)
		}
		return true
	})
	return problems
}

// checkCall looks at a call of make, or of a tool of the module release.
func checkCall(id string, words []string, files deployment) (problems []string) {
	switch {
	case words[0] == "make":
		for i, word := range words[1:] {
			name, _, assigned := strings.Cut(word, "=")
			switch {
			case word == "-C" || words[i] == "-C":
			case assigned && !strings.Contains(files["Makefile"], "$("+name+")") &&
				!strings.Contains(files["Makefile"], "$(or $("+name+"),"):
				problems = append(problems, fmt.Sprintf("%s: Makefile has no variable %s", id, name))
			case !assigned && !strings.Contains(files["Makefile"], "\n"+name+": ## "):
				problems = append(problems, fmt.Sprintf("%s: Makefile has no target %s", id, name))
			}
		}
	case len(words) > 4 && slices.Equal(words[:4], []string{"go", "-C", "release", "tool"}):
		mod, err := modfile.Parse("go.mod", []byte(files["release/go.mod"]), nil)
		if err != nil {
			return []string{err.Error()}
		}
		if !slices.ContainsFunc(mod.Tool, func(t *modfile.Tool) bool { return strings.HasSuffix(t.Path, "/"+words[4]) }) {
			problems = append(problems, fmt.Sprintf("%s: release/go.mod has no tool %s", id, words[4]))
		}
	}
	return problems
}

// literal is the text of a word of a script, with its expansions left out.
func literal(w *syntax.Word) string {
	var b strings.Builder
	syntax.Walk(w, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.Lit:
			b.WriteString(n.Value)
		case *syntax.SglQuoted:
			b.WriteString(n.Value)
		case *syntax.ParamExp, *syntax.CmdSubst:
			return false
		}
		return true
	})
	return b.String()
}
