package tests

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// workflow is what these tests look at in a workflow of GitHub.
type workflow struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		Timeout int `yaml:"timeout-minutes"`
		Steps   []struct {
			ID, Uses, Run string
		}
	}
}

// TestWorkflows: a workflow takes no right that it does not name, ends, and runs nothing of others that can be exchanged
// under its name; the nightly one has all jobs of .ci/nightly. The step workflows of the gate reads their syntax.
func TestWorkflows(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../.github/workflows/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	pinned := regexp.MustCompile(`^[a-z-]+/[a-z-]+@[0-9a-f]{40}$`)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var w workflow
		if err := yaml.Unmarshal(content, &w); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
			t.Errorf("%s: its jobs may do %v; each names for itself what it needs beyond reading", file, w.Permissions)
		}
		for name, job := range w.Jobs {
			if job.Timeout == 0 {
				t.Errorf("%s: %s has no bound of its time", file, name)
			}
			for _, step := range job.Steps {
				if step.Uses != "" && !pinned.MatchString(step.Uses) {
					t.Errorf("%s: %s uses %s, which is not one commit", file, name, step.Uses)
				}
				for command := range strings.SplitSeq(step.Run, "\n") {
					program, _, _ := strings.Cut(strings.TrimSpace(command), " ")
					if strings.HasPrefix(program, ".ci/") {
						if info, err := os.Stat(filepath.Join("..", program)); err != nil || info.Mode()&0o100 == 0 {
							t.Errorf("%s: %s runs %s, which is no program", file, name, program)
						}
					}
				}
				if step.ID == "list" {
					t.Run("jobs", func(t *testing.T) { nightlyHasAllJobs(t, step.Run) })
				}
			}
		}
	}
}

// nightlyHasAllJobs runs the step that lists the jobs.
func nightlyHasAllJobs(t *testing.T, command string) {
	for _, program := range []string{"bash", "jq"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("the step runs on machines of GitHub, which have it:", err)
		}
	}
	file := filepath.Join(t.TempDir(), "output")
	cmd := exec.CommandContext(t.Context(), "bash", "-ec", command)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "GITHUB_OUTPUT="+file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	list, _ := strings.CutPrefix(strings.TrimSpace(string(content)), "names=")
	if err := json.Unmarshal([]byte(list), &names); err != nil {
		t.Fatalf("%q: %v", content, err)
	}
	script, err := os.ReadFile("../.ci/nightly")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range regexp.MustCompile(`(?m)^([a-z]+) +[0-9]+ `).FindAllStringSubmatch(string(script), -1) {
		want = append(want, m[1])
	}
	if !slices.Equal(names, want) {
		t.Errorf("the jobs are %q, want %q", names, want)
	}
}

// TestDependabot: every module of Go and every lock file of npm is kept up to date.
func TestDependabot(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../.github/dependabot.yml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Updates []struct {
			Ecosystem   string `yaml:"package-ecosystem"`
			Directories []string
		}
	}
	if err := yaml.Unmarshal(content, &config); err != nil {
		t.Fatal(err)
	}
	looks := map[string][]string{}
	for _, update := range config.Updates {
		looks[update.Ecosystem] = update.Directories
	}
	for ecosystem, pattern := range map[string]string{"gomod": "*go.mod", "npm": "*package-lock.json"} {
		var want []string
		for _, file := range tracked(t, pattern) {
			want = append(want, filepath.Join("/", filepath.Dir(file)))
		}
		slices.Sort(want)
		if got := slices.Sorted(slices.Values(looks[ecosystem])); !slices.Equal(got, want) {
			t.Errorf("%s looks at %q, want %q", ecosystem, got, want)
		}
	}
}
