// Package frameworks puts package idempotency into frameworks whose handlers are not those of net/http. chi and
// gorilla/mux need nothing: m.Wrap is a middleware of theirs.
package frameworks

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/leasehold-dev/leasehold/idempotency"
)

// Echo is the middleware for echo, in place of echo.WrapMiddleware(m.Wrap). What a handler returns as an error is made
// a response by echo's HTTPErrorHandler, as always, but within the middleware, so that it is what retries get.
func Echo(m *idempotency.Middleware) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			outer := c.Response()
			m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer c.SetResponse(outer) // for middleware outside, after a panic too
				c.SetRequest(r)
				c.SetResponse(echo.NewResponse(w, c.Echo()))
				if err := next(c); err != nil {
					c.Error(err)
				}
			})).ServeHTTP(outer, c.Request())
			return nil
		}
	}
}
