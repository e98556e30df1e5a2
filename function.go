package leasehold

import (
	"os"

	"github.com/GoogleCloudPlatform/functions-framework-go/functions"

	"github.com/leasehold-dev/leasehold/functions/gcp"
)

// The builder of Cloud Functions accepts functions that are registered by name only if a file of the root package itself
// imports the package functions, and refuses a root with an external test package. TestBuilderRules holds both.
func init() { //nolint:gochecknoinits // the framework looks functions up in a registry
	log := gcp.NewLog(os.Stderr)
	functions.HTTP("API", gcp.New(os.Getenv, log).ServeHTTP)
	functions.HTTP("Tasks", gcp.NewTasks(os.Getenv, log).ServeHTTP)
	functions.HTTP("Sweep", gcp.NewSweep(os.Getenv, log).ServeHTTP)
}
