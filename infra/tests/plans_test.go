package tests

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	tfjson "github.com/hashicorp/terraform-json"
	"github.com/zclconf/go-cty/cty"
)

// planFiles has a folder for each folder of infra/ that is applied. NAME.tfvars are the variables of a plan, NAME.txt
// is that plan, as people review it.
const planFiles = "testdata/plans"

var update = flag.Bool("update", false, "write the plans of "+planFiles+" again")

// reference is a value that is known after an apply only: what its expression refers to.
type reference string

// madeResource is a resource of a plan, with what its configuration sets.
type madeResource struct {
	address, kind string
	group         string // the address without the key of for_each or count
	values        map[string]any
}

// plan is what a folder makes with the variables of one file.
type plan struct {
	name      string // the file below planFiles, without its ending
	resources []madeResource
	variables map[string]any // of the folder
	shown     []string       // outputs of secrets
	template  bool           // it has a part of the arguments only: it is made of the SAM template
}

// of are the resources of a kind.
func (p *plan) of(kind string) (all []madeResource) {
	for _, r := range p.resources {
		if r.kind == kind {
			all = append(all, r)
		}
	}
	return all
}

// read makes the resources of Terraform's plan.
func read(name string, from *tfjson.Plan) *plan {
	p := &plan{name: name, variables: map[string]any{}}
	for variable, v := range from.Variables {
		p.variables[variable] = v.Value
	}
	unknown := map[string]any{}
	for _, c := range from.ResourceChanges {
		unknown[c.Address] = c.Change.AfterUnknown
	}
	index := regexp.MustCompile(`\[[^\]]*\]$`)
	var walk func(*tfjson.StateModule, *tfjson.ConfigModule)
	walk = func(m *tfjson.StateModule, config *tfjson.ConfigModule) {
		for _, r := range m.Resources {
			if r.Mode != tfjson.ManagedResourceMode {
				continue
			}
			expressions := map[string]*tfjson.Expression{}
			for _, c := range config.Resources {
				if c.Mode == r.Mode && c.Type == r.Type && c.Name == r.Name {
					expressions = c.Expressions
				}
			}
			after, _ := unknown[r.Address].(map[string]any)
			group := r.Address
			if r.Index != nil {
				group = r.Address[:len(r.Address)-len(fmt.Sprintf("[%s]", jsonText(r.Index)))]
			}
			p.resources = append(p.resources, madeResource{r.Address, r.Type, group,
				resolveBlock(r.AttributeValues, after, expressions)})
		}
		for _, child := range m.ChildModules {
			called := index.ReplaceAllString(child.Address, "")
			walk(child, config.ModuleCalls[called[strings.LastIndex(called, ".")+1:]].Module)
		}
	}
	walk(from.PlannedValues.RootModule, from.Config.RootModule)
	p.shown = showing(from.Config.RootModule)
	slices.SortFunc(p.resources, func(a, b madeResource) int { return cmp.Compare(a.address, b.address) })
	return p
}

// showing are the outputs of a module, and of those that it calls, that refer to a variable that is a secret.
func showing(m *tfjson.ConfigModule) (names []string) {
	for name, output := range m.Outputs {
		if output.Expression == nil || output.Expression.ExpressionData == nil {
			continue
		}
		for _, to := range output.Expression.References {
			if v := m.Variables[strings.TrimPrefix(to, "var.")]; v != nil && v.Sensitive {
				names = append(names, name)
			}
		}
	}
	for _, call := range m.ModuleCalls {
		names = append(names, showing(call.Module)...)
	}
	return names
}

// resolveBlock has the arguments of a block that its configuration sets: all of it, where the block is dynamic and so
// has no expressions of its own.
func resolveBlock(values, unknown map[string]any, expressions map[string]*tfjson.Expression) map[string]any {
	all := map[string]any{}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(values)), slices.Collect(maps.Keys(unknown))) {
		e, set := expressions[name]
		if !set && expressions != nil && !isBlocks(values[name]) {
			continue // the provider's default
		}
		if v := resolve(values[name], unknown[name], e); v != nil {
			all[name] = v
		}
	}
	return all
}

// isBlocks reports whether a value is a list of blocks.
func isBlocks(v any) bool {
	list, _ := v.([]any)
	return len(list) > 0 && !slices.ContainsFunc(list, func(item any) bool {
		_, ok := item.(map[string]any)
		return !ok
	})
}

// resolve is a value without what is empty, and with references for what is unknown.
func resolve(v, unknown any, e *tfjson.Expression) any {
	if unknown == true {
		if e == nil || e.ExpressionData == nil || len(e.References) == 0 {
			return nil
		}
		return reference(strings.Join(slices.DeleteFunc(slices.Clone(e.References), func(short string) bool {
			return slices.ContainsFunc(e.References, func(long string) bool {
				return strings.HasPrefix(long, short+".") || strings.HasPrefix(long, short+"[")
			})
		}), ", "))
	}
	switch v := v.(type) {
	case map[string]any:
		after, _ := unknown.(map[string]any)
		all := map[string]any{}
		for name := range v {
			if item := resolve(v[name], after[name], e); item != nil {
				all[name] = item
			}
		}
		for name := range after {
			if item := resolve(nil, after[name], e); item != nil {
				all[name] = item
			}
		}
		if len(all) == 0 {
			return nil
		}
		return all
	case []any:
		after, _ := unknown.([]any)
		var all []any
		for i, item := range v {
			var u any
			if i < len(after) {
				u = after[i]
			}
			block, ok := item.(map[string]any)
			if ok && e != nil && e.ExpressionData != nil && len(e.NestedBlocks) > 0 {
				m, _ := u.(map[string]any)
				all = append(all, resolveBlock(block, m, e.NestedBlocks[min(i, len(e.NestedBlocks)-1)]))
			} else if made := resolve(item, u, e); made != nil {
				all = append(all, made)
			} else if ok {
				all = append(all, map[string]any{}) // a dynamic block with nothing in it says something, too
			}
		}
		if len(all) == 0 {
			return nil
		}
		return all
	case string:
		if v == "" {
			return nil
		}
	}
	return v
}

func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(b))
}

// lines writes a value, one line for each text, number or list of them. Policies and other JSON are written as what
// they mean.
func lines(name string, v any) (all []string) {
	switch v := v.(type) {
	case reference:
		return []string{name + " = <" + string(v) + ">"}
	case string:
		var meant any
		if strings.HasPrefix(v, "{") && json.Unmarshal([]byte(v), &meant) == nil {
			if strings.HasPrefix(name, "dashboard_") {
				return charts(name, meant)
			}
			return lines(name, meant)
		}
		return []string{name + " = " + jsonText(hidden.ReplaceAllString(v, "<hash>"))}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			all = append(all, lines(name+"."+key, v[key])...)
		}
		return all
	case []any:
		if !isBlocks(v) {
			if len(v) == 1 {
				if r, ok := v[0].(reference); ok {
					return []string{name + " = [<" + string(r) + ">]"}
				}
			}
			return []string{name + " = " + jsonText(v)}
		}
		for i, item := range v {
			key := ""
			block := item.(map[string]any)
			if len(v) > 1 {
				sid := text(block["Sid"])
				key = "[" + cmp.Or(sid, strconv.Itoa(i)) + "]"
			}
			if len(block) == 0 {
				all = append(all, name+key+" {}")
			}
			all = append(all, lines(name+key, item)...)
		}
		return all
	default:
		return []string{name + " = " + jsonText(v)}
	}
}

// hidden is what differs between archives of the same sources.
var hidden = regexp.MustCompile(`[0-9a-f]{64}|^[A-Za-z0-9+/]{43}=$`)

// charts writes the title and the filter of each chart. Other dashboards are files of observability/, with which tests
// compare them.
func charts(name string, v any) (all []string) {
	var title string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			title = cmp.Or(text(v["title"]), title)
			if f := text(v["filter"]); f != "" {
				all = append(all, fmt.Sprintf("%s[%s] = %s", name, title, f))
			}
			for _, key := range slices.Sorted(maps.Keys(v)) {
				walk(v[key])
			}
		case []any:
			for _, item := range v {
				walk(item)
			}
		}
	}
	walk(v)
	if all == nil {
		all = []string{name + " = <a file of observability/>"}
	}
	return all
}

// String is the plan as people review it. What all resources of one block have in common is written once.
func (p *plan) String() string {
	var b strings.Builder
	for i := 0; i < len(p.resources); {
		group := p.resources[i].group
		n := 1
		for i+n < len(p.resources) && p.resources[i+n].group == group {
			n++
		}
		all := make([][]string, n)
		times := map[string]int{}
		for j, r := range p.resources[i : i+n] {
			for _, name := range slices.Sorted(maps.Keys(r.values)) {
				all[j] = append(all[j], lines(name, r.values[name])...)
			}
			for _, line := range all[j] {
				times[line]++
			}
		}
		if i > 0 {
			b.WriteString("\n")
		}
		if n > 1 {
			fmt.Fprintf(&b, "%s, each of %d\n", group, n)
			for _, line := range all[0] {
				if times[line] == n {
					b.WriteString("  " + line + "\n")
				}
			}
		}
		for j, r := range p.resources[i : i+n] {
			indent := "  "
			if n > 1 {
				indent = "    "
				b.WriteString("  " + strings.TrimPrefix(r.address, group) + "\n")
			} else {
				b.WriteString(r.address + "\n")
			}
			for _, line := range all[j] {
				if n == 1 || times[line] < n {
					b.WriteString(indent + line + "\n")
				}
			}
		}
		i += n
	}
	return b.String()
}

// planFolders are the folders of planFiles with their files of variables.
func planFolders(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	err := filepath.WalkDir(planFiles, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".tfvars" {
			dir, _ := filepath.Rel(planFiles, filepath.Dir(path))
			all[dir] = append(all[dir], path)
		}
		return err
	})
	if err != nil || len(all) == 0 {
		t.Fatal(len(all), err)
	}
	return all
}

// plannable is a copy of infra/ with the folder dir initialized, as its plans need it.
func plannable(t *testing.T, dir string) *configuration {
	t.Helper()
	var providers, env string
	if strings.HasPrefix(dir, "aws/") {
		providers, env = mirror(t, awsProvider), accountless
	} else {
		providers, env = stub(t), predicting
	}
	c := copied(t, env)
	main := filepath.Join(c.root, dir, "main.tf")
	content, err := os.ReadFile(main)
	if err != nil {
		t.Fatal(err)
	}
	// A plan with it would ask for its bucket.
	content = regexp.MustCompile(`(?s)  backend "(gcs|s3)" \{.*?\}\n`).ReplaceAll(content, nil)
	if err := cmp.Or(os.WriteFile(main, content, 0o600), os.Rename(packaged(t, c.root, ""),
		filepath.Join(c.root, dir, "package.zip"))); err != nil {
		t.Fatal(err)
	}
	return c.in(providers, dir)
}

// planOfFile is the plan with the variables of a file.
func (c *configuration) planOfFile(path string) (*plan, string) {
	c.tb.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		c.tb.Fatal(err)
	}
	p, refused := c.planWith("-var-file=" + path)
	if p == nil {
		return nil, refused[max(0, strings.Index(refused, "Error:")):]
	}
	name, _, _ := strings.Cut(path[strings.Index(path, planFiles)+len(planFiles)+1:], ".")
	return read(name, p), ""
}

// TestPlans: what a module or an example makes is what was reviewed, with its defaults and with each of its variables.
// A change that is meant writes the plans again: go test -C infra/tests -run TestPlans -update .
func TestPlans(t *testing.T) {
	t.Parallel()
	program(t)
	for dir, files := range planFolders(t) {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			c := plannable(t, dir)
			for _, file := range files {
				p, refused := c.planOfFile(file)
				if p == nil {
					t.Errorf("%s: %s", file, refused)
					continue
				}
				for _, problem := range broken(p) {
					t.Errorf("%s: %s", file, problem)
				}
				golden, got := strings.TrimSuffix(file, ".tfvars")+".txt", p.String()
				if *update {
					if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
						t.Fatal(err)
					}
					continue
				}
				want, err := os.ReadFile(golden)
				if err != nil {
					t.Error(err)
				}
				if d := difference(string(want), got); d != "" {
					t.Errorf("%s is not what is planned:\n%s", golden, d)
				}
			}
		})
	}
}

// difference are the lines that only one of two texts has, each below its resource.
func difference(want, got string) string {
	of := func(content string) map[string]int {
		all, resource, instance := map[string]int{}, "", ""
		for i, line := range strings.Split(content, "\n") {
			switch {
			case !strings.HasPrefix(line, " "):
				resource, instance = line, ""
			case strings.HasPrefix(line, "  ["):
				instance = strings.TrimSpace(line)
			}
			all[resource+" "+instance+": "+strings.TrimSpace(line)] = i
		}
		return all
	}
	w, g := of(want), of(got)
	var all []string
	for _, x := range []struct {
		sign     string
		has, not map[string]int
	}{{"- ", w, g}, {"+ ", g, w}} {
		for _, line := range slices.SortedFunc(maps.Keys(x.has), func(a, b string) int { return x.has[a] - x.has[b] }) {
			if _, ok := x.not[line]; !ok {
				all = append(all, x.sign+line)
			}
		}
	}
	if all == nil && want != got {
		return "the order differs"
	}
	return strings.Join(all, "\n")
}

// sources are the folders below root with Terraform, each with the bodies of its files, by their paths.
func sources(t *testing.T, root string) map[string]map[string]*hclsyntax.Body {
	t.Helper()
	parser := hclparse.NewParser()
	all := map[string]map[string]*hclsyntax.Body{}
	for _, below := range []string{"*/*", "*/*/*", "*/examples/*/*"} {
		files, err := filepath.Glob(filepath.Join(root, below, "*.tf"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			file, diagnostics := parser.ParseHCLFile(path)
			if diagnostics.HasErrors() {
				t.Fatal(diagnostics)
			}
			dir, _ := filepath.Rel(root, filepath.Dir(path))
			if all[dir] == nil {
				all[dir] = map[string]*hclsyntax.Body{}
			}
			all[dir][path] = file.Body.(*hclsyntax.Body)
		}
	}
	return all
}

// names are the roots and first steps of what an expression refers to.
func names(e hclsyntax.Expression) (all []string) {
	for _, t := range e.Variables() {
		for _, step := range t[:min(2, len(t))] {
			switch step := step.(type) {
			case hcl.TraverseRoot:
				all = append(all, step.Name)
			case hcl.TraverseAttr:
				all = append(all, step.Name)
			}
		}
	}
	return all
}

// careless says what is wrong in the files of a folder and is in no plan: changes that are ignored, code with the hash
// of other code, variables that nothing uses, and metrics of the platform with a dimension that they do not have.
func careless(files map[string]*hclsyntax.Body) (problems []string) {
	literal := func(e hclsyntax.Expression) string {
		v, diagnostics := e.Value(nil)
		if diagnostics.HasErrors() || v.Type() != cty.String {
			return ""
		}
		return v.AsString()
	}
	used, declared := map[string]bool{}, map[string]bool{}
	var block string
	visit := func(node hclsyntax.Node) hcl.Diagnostics {
		switch n := node.(type) {
		case *hclsyntax.ScopeTraversalExpr:
			if len(n.Traversal) > 1 && n.Traversal.RootName() == "var" {
				if name := n.Traversal[1].(hcl.TraverseAttr).Name; name != block { // its validation is no use
					used[name] = true
				}
			}
		case *hclsyntax.Block:
			if n.Type == "resource" && n.Labels[0] == "aws_dynamodb_table" && !slices.ContainsFunc(n.Body.Blocks,
				func(b *hclsyntax.Block) bool {
					return b.Type == "lifecycle" && b.Body.Attributes["prevent_destroy"] != nil
				}) {
				problems = append(problems, fmt.Sprint(n.Range(), ": a plan may destroy it"))
			}
			if n.Type == "lifecycle" && n.Body.Attributes["ignore_changes"] != nil {
				problems = append(problems, fmt.Sprint(n.Range(), ": changes are ignored"))
			}
			for code, hash := range map[string]string{"filename": "source_code_hash", "source": "name"} {
				of, by := n.Body.Attributes[code], n.Body.Attributes[hash]
				if n.Type == "resource" && of != nil && by != nil && !slices.Equal(names(of.Expr), names(by.Expr)) {
					problems = append(problems, fmt.Sprint(n.Range(), ": its hash is that of other code"))
				}
			}
		case *hclsyntax.ObjectConsExpr:
			of := map[string]hclsyntax.Expression{}
			for _, item := range n.Items {
				if key := literal(item.KeyExpr); key != "" && of[key] != nil { // the last one would count, without a word
					problems = append(problems, fmt.Sprint(item.KeyExpr.Range(), ": ", key, " is set twice"))
				}
				of[literal(item.KeyExpr)] = item.ValueExpr
			}
			d, ok := of["dimensions"].(*hclsyntax.ObjectConsExpr)
			if !ok || of["namespace"] == nil || of["metric"] == nil || len(d.Items) == 0 {
				break
			}
			metric, dimension := literal(of["namespace"])+" "+literal(of["metric"]), literal(d.Items[0].KeyExpr)
			if known, ok := ofAWS[metric]; ok && dimension != known[0] {
				problems = append(problems, fmt.Sprint(n.Range(), ": ", metric, " has no ", dimension))
			}
		}
		return nil
	}
	for _, body := range files {
		for _, b := range body.Blocks {
			block = ""
			if b.Type == "variable" {
				block = b.Labels[0]
				declared[block] = true
			}
			_ = hclsyntax.VisitAll(b, visit)
		}
	}
	for name := range declared {
		if !used[name] {
			problems = append(problems, "nothing uses the variable "+name)
		}
	}
	return problems
}

// TestPlansSetEveryVariable: each folder has plans, and each of its optional variables is set in one of them.
func TestPlansSetEveryVariable(t *testing.T) {
	t.Parallel()
	of := planFolders(t)
	parser := hclparse.NewParser()
	for dir, files := range sources(t, "..") {
		if dir == "gcp/functions/service" {
			continue // it is applied by gcp/functions alone, which sets all of it
		}
		set := map[string]bool{}
		for _, path := range of[dir] {
			file, diagnostics := parser.ParseHCLFile(path)
			if diagnostics.HasErrors() {
				t.Fatal(diagnostics)
			}
			for name := range file.Body.(*hclsyntax.Body).Attributes {
				set[name] = true
			}
		}
		for _, body := range files {
			for _, b := range body.Blocks {
				if b.Type == "variable" && !set[b.Labels[0]] {
					t.Errorf("%s: no plan sets %s", dir, b.Labels[0])
				}
			}
		}
	}
}

// TestSources: what no plan shows is right, too, and mistakes in it are found.
func TestSources(t *testing.T) {
	t.Parallel()
	for dir, files := range sources(t, "..") {
		for _, problem := range careless(files) {
			t.Errorf("%s: %s", dir, problem)
		}
	}
	c := &configuration{tb: t, root: t.TempDir()}
	if err := os.CopyFS(c.root, os.DirFS("..")); err != nil {
		t.Fatal(err)
	}
	all := []mistake{
		{"gcp/functions/service/main.tf", "  deletion_protection = false # it has no data\n",
			"  deletion_protection = false\n  lifecycle {\n    ignore_changes = [template]\n  }\n", "changes are ignored"},
		{"aws/functions/main.tf", "filebase64sha256(var.package)", `filebase64sha256("${path.module}/main.tf")`,
			"its hash is that of other code"},
		{"aws/functions/alarms.tf", "dimensions = { ApiId =", "dimensions = { ApiName =",
			"AWS/ApiGateway 5xx has no ApiName"},
		{"aws/examples/production/functions/main.tf", "    LEASEHOLD_METRICS_EMF          = true\n",
			"    LEASEHOLD_METRICS_EMF          = true\n    LEASEHOLD_TENANT_RATE = 10\n", "LEASEHOLD_TENANT_RATE is set twice"},
		{"aws/table/main.tf", "recovery_period_in_days = var.recovery_days", "recovery_period_in_days = 35",
			"nothing uses the variable recovery_days"},
	}
	mistaken(c, all)
	var problems []string
	for _, files := range sources(t, c.root) {
		problems = append(problems, careless(files)...)
	}
	found(t, all, strings.Join(problems, "\n"))
}

// TestImages: no module has a function of Lambda that is an image. One that had would be given it by its digest, and
// have that one.
func TestImages(t *testing.T) {
	t.Parallel()
	const repository = "123456789012.dkr.ecr.eu-north-1.amazonaws.com/leasehold"
	given := repository + "@sha256:" + strings.Repeat("0", 64)
	for image, says := range map[string]string{
		given:                "",
		repository + ":v1":   "the tag of " + repository + ":v1 can move",
		repository:           "can move",
		given[:len(given)-1]: "can move",
		repository + "@sha256:" + strings.Repeat("1", 64): "it is " + repository + "@sha256:1",
	} {
		p := &plan{variables: map[string]any{"image": given}, resources: []madeResource{{kind: "aws_lambda_function",
			values: map[string]any{"function_name": "locks", "publish": true, "image_uri": image}}}}
		got := strings.Join(broken(p), "\n")
		if says == "" != (got == "") || !strings.Contains(got, says) {
			t.Errorf("%s: %q", image, got)
		}
	}
}
