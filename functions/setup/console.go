package setup

import (
	"net/http"

	"github.com/leasehold-dev/leasehold/console"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

// consoleRoutes are the endpoints of the console's files. Everyone may read them: they are the same for all, and what
// the page shows comes from the API.
func consoleRoutes() []httpapi.Route {
	routes := []httpapi.Route{served("/console", console.Redirect)}
	for _, f := range console.Files() {
		path := "/console/" + f.Name
		if f.Name == "" {
			path += "{$}" // and nothing below it
		}
		routes = append(routes, served(path, f.ServeHTTP))
	}
	return routes
}

func served(path string, serve http.HandlerFunc) httpapi.Route {
	return httpapi.Route{Method: http.MethodGet, Path: path, Do: func(w http.ResponseWriter, r *http.Request) error {
		serve(w, r)
		return nil
	}}
}
