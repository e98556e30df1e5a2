package frameworks

import (
	"bufio"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/leasehold-dev/leasehold/idempotency"
)

// Gin is the middleware for gin. It is in its place after those that respond to errors which handlers collect
// (c.Error): these respond within the middleware only if they are used after it.
func Gin(m *idempotency.Middleware) gin.HandlerFunc {
	return func(c *gin.Context) {
		if c.FullPath() == "" { // no route: gin responds when all middleware has returned
			c.Next()
			return
		}
		outer, ran := c.Writer, false
		m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() { c.Writer = outer }() // for middleware outside, after a panic too
			inner := &ginWriter{ResponseWriter: outer, to: w}
			c.Request, c.Writer, ran = r, inner, true
			c.Next()
			if inner.status != 0 { // c.Status alone
				inner.WriteHeaderNow()
			}
		})).ServeHTTP(outer, c.Request)
		if !ran {
			c.Abort() // a response that was stored is all
		}
	}
}

// ginWriter is the writer of a handler behind the middleware: what is written goes to it, not past it.
type ginWriter struct {
	gin.ResponseWriter // for Pusher and CloseNotify

	to      http.ResponseWriter
	status  int // 0 until someone says it
	written bool
	size    int
}

func (g *ginWriter) Header() http.Header { return g.to.Header() }

func (g *ginWriter) WriteHeader(status int) {
	if status > 0 && !g.written {
		g.status = status
	}
}

func (g *ginWriter) WriteHeaderNow() {
	if !g.written {
		g.written = true
		g.to.WriteHeader(g.Status())
	}
}

func (g *ginWriter) Write(b []byte) (int, error) {
	g.WriteHeaderNow()
	n, err := g.to.Write(b)
	g.size += n
	return n, err
}

func (g *ginWriter) WriteString(s string) (int, error) { return g.Write([]byte(s)) }

func (g *ginWriter) Status() int {
	if g.status == 0 {
		return http.StatusOK
	}
	return g.status
}

func (g *ginWriter) Size() int {
	if !g.written {
		return -1 // as gin says it
	}
	return g.size
}

func (g *ginWriter) Written() bool { return g.written }

// Flush sends nothing: a response is sent once it is stored.
func (g *ginWriter) Flush() { g.WriteHeaderNow() }

func (g *ginWriter) Unwrap() http.ResponseWriter { return g.to }

func (g *ginWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, http.ErrNotSupported
}
