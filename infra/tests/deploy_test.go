package tests

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	tfjson "github.com/hashicorp/terraform-json"
)

// deployer is the subject that may deploy in these tests.
const deployer = "repo:acme/deployment:environment:staging"

// ofDeployRole are variables of the module for Google Cloud.
var ofDeployRole = given{
	"project": project, "region": googleRegion, "subjects": `["` + deployer + `"]`,
	"repository": `{location="europe-west1",name="images"}`,
	"services":   `{api="leasehold-api",tasks="leasehold-tasks"}`,
	"accounts": fmt.Sprintf(
		`{api="a@%[1]s.iam.gserviceaccount.com",tasks="t@%[1]s.iam.gserviceaccount.com",queue="q@%[1]s.iam.gserviceaccount.com"}`, project),
}

// checkGoogleDeployRole compares a plan of the module with what a deployment does.
func checkGoogleDeployRole(p *tfjson.Plan) (r report) {
	deploy := "serviceAccount:leasehold-deploy@" + project + ".iam.gserviceaccount.com: "
	account := "projects/" + project + "/serviceAccounts/"
	r.equal("grants", grants(p), []string{
		"principal://iam.googleapis.com/projects/123456789012/locations/global/workloadIdentityPools/leasehold-deploy/subject/" + deployer +
			": roles/iam.workloadIdentityUser on " + account + "leasehold-deploy@" + project + ".iam.gserviceaccount.com",
		deploy + "projects/" + project + "/roles/leasehold_deploy on leasehold-api",
		deploy + "projects/" + project + "/roles/leasehold_deploy on leasehold-tasks",
		deploy + "roles/iam.serviceAccountUser on " + account + "a@" + project + ".iam.gserviceaccount.com",
		deploy + "roles/iam.serviceAccountUser on " + account + "t@" + project + ".iam.gserviceaccount.com",
		deploy + "roles/artifactregistry.reader on images",
	})
	for _, role := range resources(p, "google_project_iam_custom_role") {
		r.equal("permissions", texts(role.AttributeValues["permissions"]),
			[]string{"run.revisions.get", "run.revisions.list", "run.services.get", "run.services.update"})
	}
	var apis []string
	for _, service := range resources(p, "google_project_service") {
		apis = append(apis, text(service.AttributeValues["service"]))
	}
	r.equal("APIs", apis, []string{"iam.googleapis.com", "iamcredentials.googleapis.com", "sts.googleapis.com"})
	providers := slices.Collect(maps.Values(resources(p, "google_iam_workload_identity_pool_provider")))
	if len(providers) != 1 {
		r.sayf("there are %d providers of tokens", len(providers))
		return r
	}
	v := providers[0].AttributeValues
	if got := text(v["attribute_condition"]); got != `assertion.sub in ["`+deployer+`"]` {
		r.sayf("tokens are accepted if %q", got)
	}
	if !reflect.DeepEqual(v["attribute_mapping"], map[string]any{"google.subject": "assertion.sub"}) {
		r.sayf("subjects are %v", v["attribute_mapping"])
	}
	if got := text(only(v, "oidc")["issuer_uri"]); got != "https://token.actions.githubusercontent.com" {
		r.sayf("tokens are of %q", got)
	}
	return append(r, broken(read("", p))...)
}

// TestGoogleDeployRole: deployments need no key, come from named subjects, and may deploy and nothing else; mistakes
// are found, and subjects with wildcards refused.
func TestGoogleDeployRole(t *testing.T) {
	t.Parallel()
	program(t)
	original := googled(t, stub(t), "deploy-role", predicting)
	planned := func(c *configuration) *tfjson.Plan {
		p, refused := c.plan(ofDeployRole.list()...)
		if p == nil {
			t.Fatal(refused)
		}
		return p
	}
	for _, problem := range checkGoogleDeployRole(planned(original)) {
		t.Error(problem)
	}
	wrong := original.clone(t)
	all := []mistake{
		{"gcp/deploy-role/main.tf", `"assertion.sub in ${jsonencode(var.subjects)}"`,
			`"assertion.repository_owner == 'acme'"`, `tokens are accepted if "assertion.repository_owner`},
		{"gcp/deploy-role/main.tf", `"google.subject" = "assertion.sub"`, `"google.subject" = "assertion.repository"`,
			"subjects are map"},
		{"gcp/deploy-role/main.tf", `"principal://iam.googleapis.com/${local.pool}/subject/${each.value}"`,
			`"principalSet://iam.googleapis.com/${local.pool}/*"`, "nothing is open to the public beside invokers: principalSet"},
		{"gcp/deploy-role/main.tf", `"run.services.update"]`, `"run.services.update", "run.services.setIamPolicy"]`,
			"run.services.setIamPolicy is too much"},
		{"gcp/deploy-role/main.tf", `role     = google_project_iam_custom_role.deploy.name`, `role     = "roles/run.admin"`,
			"roles/run.admin on leasehold-api is too much"},
		{"gcp/deploy-role/main.tf", `for_each = var.services

  service_account_id`, `for_each = var.accounts

  service_account_id`, "q@" + project + ".iam.gserviceaccount.com is too much"},
	}
	mistaken(wrong, all)
	found(t, all, strings.Join(checkGoogleDeployRole(planned(wrong)), "\n"))

	out, err := original.refusal(ofDeployRole.with(given{
		"subjects": `["repo:acme/deployment:*"]`, "region": "eur3", "project": "123456789012", "services": "{}",
		"issuer": "token.actions.githubusercontent.com", "pool": "ci",
	}))
	for _, want := range []string{"subjects must", "region must", "project must", "services must",
		"issuer must", "pool must"} {
		if err == nil || !strings.Contains(words(out), want) {
			t.Errorf("%v, and must say %q:\n%s", err, want, out)
		}
	}
	if out, err := original.refusal(ofDeployRole.with(given{"accounts": "{}"})); err == nil ||
		!strings.Contains(words(out), "accounts must have the account of each") {
		t.Errorf("%v\n%s", err, out)
	}
}

// checkDeployRole compares a plan of the module for AWS with what a deployment does.
func checkDeployRole(plan *tfjson.Plan) []string {
	p := &planOf{Plan: plan}
	address, role := p.only("aws_iam_role")
	for _, s := range p.policy(address, text(role["assume_role_policy"])).Statement {
		want := map[string]any{"token.actions.githubusercontent.com:aud": []any{"sts.amazonaws.com"},
			"token.actions.githubusercontent.com:sub": []any{deployer}}
		if !slices.Equal(s.Action, []string{"sts:AssumeRoleWithWebIdentity"}) || len(s.Condition) != 1 ||
			!reflect.DeepEqual(s.Condition["StringEquals"], want) {
			p.badf("%s: it is assumed by %v if %v", address, s.Action, s.Condition)
		}
	}
	address, attached := p.only("aws_iam_role_policy")
	want := []string{
		"lambda:GetAlias", "lambda:GetFunction", "lambda:GetFunctionConfiguration", "lambda:ListVersionsByFunction",
		"lambda:PublishVersion", "lambda:UpdateAlias", "lambda:UpdateFunctionCode",
	}
	var functions, versions []string
	for _, handler := range slices.Sorted(maps.Keys(handlers)) {
		arn := "arn:aws:lambda:" + region + ":" + account + ":function:leasehold-" + handler
		functions, versions = append(functions, arn), append(versions, arn+":*")
	}
	for _, s := range p.policy(address, text(attached["policy"])).Statement {
		if !slices.Equal(s.Action, want) || !slices.Equal(s.Resource, slices.Concat(functions, versions)) {
			p.badf("%s: it may %v on %v", address, s.Action, s.Resource)
		}
	}
	return p.problems
}

// TestDeployRole: the same on AWS.
func TestDeployRole(t *testing.T) {
	t.Parallel()
	original := configured(t, mirror(t, awsProvider), "aws/deploy-role", accountless)
	// an ARN of a new one is not known in a plan
	provider := "provider_arn=arn:aws:iam::" + account + ":oidc-provider/token.actions.githubusercontent.com"
	planned := func(c *configuration) *tfjson.Plan {
		p, refused := c.plan(`subjects=["`+deployer+`"]`, provider)
		if p == nil {
			t.Fatal(refused)
		}
		return p
	}
	for _, problem := range checkDeployRole(planned(original)) {
		t.Error(problem)
	}
	wrong := original.clone(t)
	all := []mistake{
		{"aws/deploy-role/main.tf", `StringEquals = {`, `StringLike = {`, "it is assumed by"},
		{"aws/deploy-role/main.tf", `Resource = local.functions`, `Resource = [for arn in local.arns : "${arn}*"]`,
			"leasehold-api*"},
		{"aws/deploy-role/main.tf", `"lambda:UpdateFunctionCode",`, `"lambda:UpdateFunctionCode", "lambda:AddPermission",`,
			"lambda:AddPermission"},
	}
	mistaken(wrong, all)
	found(t, all, strings.Join(checkDeployRole(planned(wrong)), "\n"))
	if p, refused := original.plan(`subjects=["repo:acme/deployment:*"]`, provider); p != nil ||
		!strings.Contains(words(refused), "subjects must have at least one subject, and no wildcards") {
		t.Errorf("refused: %s", refused)
	}
}
