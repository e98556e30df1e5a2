package main

import (
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// predictVariable in the environment makes plans say what the provider would find out: names and addresses that follow
// from arguments. With it a plan shows what is connected with what. Without it, as with the provider, they are unknown,
// and a configuration that needs them too early fails.
const predictVariable = "GOOGLESTUB_PREDICT"

// predictions are results as texts with {arguments}, by type of resource.
var predictions = map[string]map[string]string{
	"google_service_account": {
		"email":  "{account_id}@{project}.iam.gserviceaccount.com",
		"member": "serviceAccount:{account_id}@{project}.iam.gserviceaccount.com",
		"name":   "projects/{project}/serviceAccounts/{account_id}@{project}.iam.gserviceaccount.com",
		"id":     "projects/{project}/serviceAccounts/{account_id}@{project}.iam.gserviceaccount.com",
	},
	"google_cloud_tasks_queue": {"id": "projects/{project}/locations/{location}/queues/{name}"},
	"google_artifact_registry_repository": {"id": "projects/{project}/locations/{location}/repositories/{repository_id}",
		"name": "{repository_id}"},
	"google_project_iam_custom_role": {"id": "projects/{project}/roles/{role_id}",
		"name": "projects/{project}/roles/{role_id}"},
	"google_iam_workload_identity_pool": {
		"name": "projects/123456789012/locations/global/workloadIdentityPools/{workload_identity_pool_id}"},
	"google_logging_project_bucket_config": {"id": "projects/{project}/locations/{location}/buckets/{bucket_id}"},
	"google_cloud_run_v2_service":          {"uri": "https://{name}-abcdefghij-ew.a.run.app"},
	"google_cloudfunctions2_function": {"url": "https://{location}-{project}.cloudfunctions.net/{name}",
		"service_config.uri": "https://{name}-abcdefghij-ew.a.run.app"},
}

// predict sets results of a planned resource.
func predict(kind string, v tftypes.Value) (tftypes.Value, error) {
	members := map[string]tftypes.Value{}
	if err := v.As(&members); err != nil {
		return v, err
	}
	var pairs []string
	for name, m := range members {
		var s string
		if m.IsKnown() && !m.IsNull() && m.As(&s) == nil {
			pairs = append(pairs, "{"+name+"}", s)
		}
	}
	fill := strings.NewReplacer(pairs...)
	for name, text := range predictions[kind] {
		text = fill.Replace(text)
		if strings.Contains(text, "{") {
			continue // an argument is not known
		}
		block, result, nested := strings.Cut(name, ".")
		if !nested {
			members[name] = tftypes.NewValue(tftypes.String, text)
			continue
		}
		var items []tftypes.Value
		if err := members[block].As(&items); err != nil || len(items) != 1 {
			return v, fmt.Errorf("%s has no single block %s", kind, block)
		}
		inner := map[string]tftypes.Value{}
		if err := items[0].As(&inner); err != nil {
			return v, err
		}
		inner[result] = tftypes.NewValue(tftypes.String, text)
		members[block] = tftypes.NewValue(members[block].Type(), []tftypes.Value{tftypes.NewValue(items[0].Type(), inner)})
	}
	return tftypes.NewValue(v.Type(), members), nil
}
