// Command function is a hello of the framework that the Cloud Functions use, with the same client: it reads one
// document for each request. The benchmark of cold starts compares Leasehold with it.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"

	"cloud.google.com/go/firestore"
	"github.com/GoogleCloudPlatform/functions-framework-go/funcframework"
	"github.com/GoogleCloudPlatform/functions-framework-go/functions"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func main() {
	client, err := firestore.NewClient(context.Background(), os.Getenv("GOOGLE_CLOUD_PROJECT"))
	if err != nil {
		log.Fatal(err)
	}
	functions.HTTP("API", func(w http.ResponseWriter, r *http.Request) {
		if _, err := client.Doc("tenants/acme/locks/deploy").Get(r.Context()); err != nil &&
			status.Code(err) != codes.NotFound {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "hello")
	})
	log.Fatal(funcframework.StartHostPort("127.0.0.1", os.Getenv("PORT")))
}
