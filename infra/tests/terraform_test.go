package tests

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	tfjson "github.com/hashicorp/terraform-json"
)

// program is Terraform, or OpenTofu. A test that needs it is skipped where there is neither.
func program(t testing.TB) string {
	t.Helper()
	for _, name := range []string{os.Getenv("LEASEHOLD_TEST_TERRAFORM"), "terraform", "tofu"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("SKIPPED: neither terraform nor tofu is on this machine, so that the modules of infra/ are not checked by it")
	return ""
}

// planted skips a test of mistakes that are made in modules: it shows that the other tests would find them, takes as long
// as all of these, and is one of the night.
func planted(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: mistakes are not planted in modules if tests are to be short; .ci/nightly plants them")
	}
}

// The registries that providers are of which a module names without one, and so the folders of mirrors that they are
// in.
const (
	ofTerraform = "registry.terraform.io"
	ofOpenTofu  = "registry.opentofu.org"
)

// mirror is a folder with a provider, such as hashicorp/aws. A test that needs it is skipped where there is none.
func mirror(t testing.TB, provider string) string {
	t.Helper()
	registry := ofTerraform
	if filepath.Base(program(t)) == "tofu" {
		registry = ofOpenTofu
	}
	home, _ := os.UserHomeDir()
	folders := []string{os.Getenv("LEASEHOLD_TEST_TERRAFORM_MIRROR"), filepath.Join(home, ".terraform.d/plugins"),
		"/usr/local/share/terraform/plugins", "/usr/share/terraform/plugins"}
	for _, name := range []string{"terraform-mirror", "terraform-plugins", "tf-plugins"} {
		folders = append(folders, filepath.Join("/opt", name))
	}
	for _, folder := range folders {
		found, _ := filepath.Glob(filepath.Join(folder, registry, provider, "*", runtime.GOOS+"_"+runtime.GOARCH,
			"terraform-provider-*"))
		if folder != "" && found != nil {
			return folder
		}
	}
	t.Skipf(
		"SKIPPED: no mirror on this machine has the provider %s, so that its modules are not validated and planned; LEASEHOLD_TEST_TERRAFORM_MIRROR names a folder with one", provider)
	return ""
}

// configuration is a copy of infra/ that a test may change, and one folder of it that is applied.
type configuration struct {
	tb      testing.TB
	program string
	root    string   // the copy
	dir     string   // the folder in it
	env     []string // beside that of the process, without what concerns Terraform and clouds
}

// observability has the alerts and dashboards that modules read.
const observability = "../observability"

// copied copies infra/. Variables of the environment are added to those of the process.
func copied(t testing.TB, env ...string) *configuration {
	t.Helper()
	folder := t.TempDir()
	c := &configuration{tb: t, program: program(t), root: filepath.Join(folder, "infra"), env: env}
	if err := os.CopyFS(c.root, os.DirFS("..")); err != nil {
		t.Fatal(err)
	}
	return c
}

// configured is a copy with the folder dir initialized, with the providers of a mirror.
func configured(t testing.TB, mirror, dir string, env ...string) *configuration {
	t.Helper()
	return copied(t, env...).in(mirror, dir)
}

// in initializes another folder of the copy.
func (c *configuration) in(mirror, dir string) *configuration {
	c.tb.Helper()
	other := *c
	other.dir = filepath.Join(c.root, dir)
	// The state is a file of the copy, whatever the folder says.
	if err := os.WriteFile(filepath.Join(other.dir, "backend_override.tf"),
		[]byte("terraform {\n  backend \"local\" {}\n}\n"), 0o600); err != nil {
		c.tb.Fatal(err)
	}
	if out, err := other.run("init", "-input=false", "-no-color", "-plugin-dir="+mirror); err != nil {
		c.tb.Fatalf("init of %s: %v\n%s", dir, err, out)
	}
	return &other
}

// clone is a copy of the initialized configuration.
func (c *configuration) clone(t testing.TB) *configuration {
	t.Helper()
	other := *c
	folder := t.TempDir()
	other.tb, other.root = t, filepath.Join(folder, "infra")
	other.dir = filepath.Join(other.root, strings.TrimPrefix(c.dir, c.root))
	if err := exec.CommandContext(t.Context(), "cp", "-a", filepath.Dir(c.root)+"/.", folder).Run(); err != nil {
		t.Fatal(err)
	}
	return &other
}

// change replaces text in a file of the copy.
func (c *configuration) change(path, old, changed string) {
	c.tb.Helper()
	file := filepath.Join(c.root, path)
	content, err := os.ReadFile(file)
	if err != nil {
		c.tb.Fatal(err)
	}
	if !bytes.Contains(content, []byte(old)) {
		c.tb.Fatalf("%s has no %q", path, old)
	}
	if err := os.WriteFile(file, bytes.Replace(content, []byte(old), []byte(changed), 1), 0o600); err != nil {
		c.tb.Fatal(err)
	}
}

// run runs Terraform in the folder, and returns all that it says.
func (c *configuration) run(args ...string) (string, error) {
	cmd := c.command(args...)
	if slices.Contains(c.env, accountless) {
		provider, giveBack := attached(c.tb)
		defer giveBack()
		cmd.Env = append(cmd.Env, provider)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// command is a call of Terraform in the folder.
func (c *configuration) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(c.tb.Context(), c.program, args...)
	cmd.Dir = c.dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "TF_") || strings.HasPrefix(kv, "AWS_") || strings.HasPrefix(kv, "GOOGLE_")
	})
	cmd.Env = append(cmd.Env, append([]string{"CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1",
		"TF_CLI_CONFIG_FILE=" + os.DevNull}, c.env...)...)
	return cmd
}

// validate returns the errors and warnings that need no values of variables.
func (c *configuration) validate() []string {
	c.tb.Helper()
	out, err := c.run("validate", "-json")
	var result struct {
		Diagnostics []struct{ Summary, Detail string }
	}
	if decodeErr := json.Unmarshal([]byte(out), &result); decodeErr != nil {
		c.tb.Fatalf("validate: %v, %v\n%s", err, decodeErr, out)
	}
	var all []string
	for _, d := range result.Diagnostics {
		all = append(all, d.Summary+": "+d.Detail)
	}
	return all
}

// plan is what an apply of the folder with these variables (name=value) would do, and what Terraform says if it refuses
// to.
func (c *configuration) plan(variables ...string) (*tfjson.Plan, string) {
	var args []string
	for _, v := range variables {
		args = append(args, "-var", v)
	}
	return c.planWith(args...)
}

// planWith is the plan with arguments that give the variables.
func (c *configuration) planWith(given ...string) (*tfjson.Plan, string) {
	c.tb.Helper()
	args := append([]string{"plan", "-input=false", "-no-color", "-refresh=false", "-lock=false", "-out=plan.bin"},
		given...)
	if out, err := c.run(args...); err != nil {
		return nil, out
	}
	out, err := c.run("show", "-json", "plan.bin")
	if err != nil {
		c.tb.Fatalf("show: %v\n%s", err, out)
	}
	var p tfjson.Plan
	if err := json.Unmarshal([]byte(out), &p); err != nil {
		c.tb.Fatal(err)
	}
	return &p, ""
}

// resources are the planned resources of a type, by their addresses.
func resources(p *tfjson.Plan, kind string) map[string]*tfjson.StateResource {
	found := map[string]*tfjson.StateResource{}
	var walk func(*tfjson.StateModule)
	walk = func(m *tfjson.StateModule) {
		for _, r := range m.Resources {
			if r.Mode == tfjson.ManagedResourceMode && r.Type == kind {
				found[r.Address] = r
			}
		}
		for _, child := range m.ChildModules {
			walk(child)
		}
	}
	walk(p.PlannedValues.RootModule)
	return found
}

// TestFormatting: all files are as terraform fmt writes them.
func TestFormatting(t *testing.T) {
	t.Parallel()
	c := &configuration{tb: t, program: program(t), dir: ".."}
	if out, err := c.run("fmt", "-check", "-diff", "-recursive", "-no-color"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
