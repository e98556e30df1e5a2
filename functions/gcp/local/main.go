// Command local runs the Cloud Functions of this module on this machine, with the framework that runs them in the
// cloud:
//
//	FIRESTORE_EMULATOR_HOST=127.0.0.1:8086 GOOGLE_CLOUD_PROJECT=demo LEASEHOLD_DEVELOPMENT=1 \
//	  FUNCTION_TARGET=API PORT=8080 go run ./functions/gcp/local
package main

import (
	"cmp"
	"log"
	"os"

	"github.com/GoogleCloudPlatform/functions-framework-go/funcframework"

	_ "github.com/leasehold-dev/leasehold" // registers the functions
)

func main() {
	log.Fatal(funcframework.StartHostPort("127.0.0.1", cmp.Or(os.Getenv("PORT"), "8080")))
}
