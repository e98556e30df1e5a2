package leasehold

import (
	"os"

	"github.com/GoogleCloudPlatform/functions-framework-go/functions"

	"github.com/leasehold-dev/leasehold/functions/gcp"
)

// The builder of Cloud Functions accepts functions that are registered by name only if a file of the root package
// itself imports the package functions, and rejects a root with an external test package. TestBuilderRules checks both.
func init() { //nolint:gochecknoinits // the framework looks functions up in a registry
	log := gcp.NewLog(os.Stderr)
	functions.HTTP("API", gcp.New(os.Environ, log).ServeHTTP)
	functions.HTTP("Tasks", gcp.NewTasks(os.Environ, log).ServeHTTP)
	functions.HTTP("Sweep", gcp.NewSweep(os.Environ, log).ServeHTTP)
}
