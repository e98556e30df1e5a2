package frameworks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	chimiddleware "github.com/go-chi/chi/v5/middleware"
	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"
	"github.com/gorilla/mux"
	"github.com/labstack/echo/v4"
	echomiddleware "github.com/labstack/echo/v4/middleware"

	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/idempotency"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// shop counts what its handlers did.
type shop struct {
	paid int
	pays func(how string) (string, error) // instead of the count, for whatever is none of the ways
}

// sells is the response to a payment that goes well.
func (s *shop) sells(how string) (string, error) {
	if s.pays != nil {
		return s.pays(how)
	}
	s.paid++
	return fmt.Sprintf("paid %d", s.paid), nil
}

// Ways in which a handler ends, by the last part of the path.
const (
	ok        = "ok"        // 201 and a body
	declined  = "declined"  // the framework's error: 402
	broken    = "broken"    // an error that is no response: 500
	panicking = "panic"     // out of the framework
	recovered = "recovered" // in it, by its own middleware
	bare      = "bare"      // a status and no body: 204
)

var ends = []string{ok, declined, broken, panicking, recovered, bare}

var errBank = errors.New("the bank does not respond")

// all make a handler of the shop: its payments are at /pay/{how} and, in a group in a group, at /a/b/pay/{how}.
var all = map[string]func(s *shop, m *idempotency.Middleware) http.Handler{
	"net/http": func(s *shop, m *idempotency.Middleware) http.Handler {
		inner := http.NewServeMux()
		inner.HandleFunc("POST /b/pay/{how}", func(w http.ResponseWriter, r *http.Request) { s.plain(w, r.PathValue("how")) })
		outer := http.NewServeMux()
		outer.Handle("/a/", http.StripPrefix("/a", inner))
		outer.HandleFunc("POST /pay/{how}", func(w http.ResponseWriter, r *http.Request) { s.plain(w, r.PathValue("how")) })
		return m.Wrap(outer)
	},
	"chi": func(s *shop, m *idempotency.Middleware) http.Handler {
		pay := func(w http.ResponseWriter, r *http.Request) { s.plain(w, chi.URLParam(r, "how")) }
		e := chi.NewRouter()
		e.Use(m.Wrap)
		e.Post("/pay/{how}", pay)
		e.With(chimiddleware.Recoverer).Post("/pay/recovered", func(http.ResponseWriter, *http.Request) { s.panics() })
		e.Route("/a", func(e chi.Router) {
			e.Route("/b", func(e chi.Router) {
				e.Post("/pay/{how}", pay)
				e.With(chimiddleware.Recoverer).Post("/pay/recovered", func(http.ResponseWriter, *http.Request) { s.panics() })
			})
		})
		return e
	},
	"gorilla": func(s *shop, m *idempotency.Middleware) http.Handler {
		pay := func(w http.ResponseWriter, r *http.Request) { s.plain(w, mux.Vars(r)["how"]) }
		e := mux.NewRouter()
		e.Use(m.Wrap)
		e.HandleFunc("/pay/{how}", pay).Methods(http.MethodPost)
		e.PathPrefix("/a").Subrouter().PathPrefix("/b").Subrouter().HandleFunc("/pay/{how}", pay).Methods(http.MethodPost)
		return e
	},
	"gin": func(s *shop, m *idempotency.Middleware) http.Handler {
		pay := func(c *gin.Context) {
			switch how := c.Param("how"); how {
			case declined:
				s.paid++
				c.AbortWithStatus(http.StatusPaymentRequired)
			case broken:
				s.paid++
				_ = c.AbortWithError(http.StatusInternalServerError, errBank)
			case bare:
				s.paid++
				c.Status(http.StatusNoContent)
			case panicking, recovered:
				s.panics()
			default:
				paid, err := s.sells(how)
				if err != nil {
					_ = c.AbortWithError(http.StatusInternalServerError, err)
					return
				}
				c.String(http.StatusCreated, "%s", paid)
			}
		}
		gin.SetMode(gin.ReleaseMode)
		e := gin.New()
		e.Use(Gin(m))
		inside := func(c *gin.Context) { // as gin.Recovery, for one of the ways
			if c.Param("how") == recovered {
				gin.CustomRecoveryWithWriter(nil, func(c *gin.Context, _ any) { c.AbortWithStatus(500) })(c)
			}
		}
		e.POST("/pay/:how", inside, pay)
		e.Group("/a").Group("/b").POST("/pay/:how", inside, pay)
		return e
	},
	"fiber": func(s *shop, m *idempotency.Middleware) http.Handler { // handlers of net/http, mounted one by one
		pay := adaptor.HTTPHandler(m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.plain(w, path.Base(r.URL.Path))
		})))
		e := fiber.New()
		e.Post("/pay/:how", pay)
		e.Group("/a").Group("/b").Post("/pay/:how", pay)
		return adaptor.FiberApp(e)
	},
	"echo": func(s *shop, m *idempotency.Middleware) http.Handler {
		pay := func(c echo.Context) error {
			switch how := c.Param("how"); how {
			case declined:
				s.paid++
				return echo.NewHTTPError(http.StatusPaymentRequired, "no money")
			case broken:
				s.paid++
				return errBank
			case bare:
				s.paid++
				return c.NoContent(http.StatusNoContent)
			case panicking, recovered:
				s.panics()
				return nil
			default:
				paid, err := s.sells(how)
				if err != nil {
					return err
				}
				return c.String(http.StatusCreated, paid)
			}
		}
		inside := echomiddleware.RecoverWithConfig(echomiddleware.RecoverConfig{DisablePrintStack: true,
			Skipper: func(c echo.Context) bool { return c.Param("how") != recovered }})
		e := echo.New()
		e.Logger.SetOutput(io.Discard)
		e.Use(Echo(m))
		e.POST("/pay/:how", pay, inside)
		e.Group("/a").Group("/b").POST("/pay/:how", pay, inside)
		return e
	},
}

func (s *shop) panics() {
	s.paid++
	panic("the bank is on fire")
}

// plain is a handler of net/http.
func (s *shop) plain(w http.ResponseWriter, how string) {
	switch how {
	case declined:
		s.paid++
		http.Error(w, "no money", http.StatusPaymentRequired)
	case broken:
		s.paid++
		http.Error(w, errBank.Error(), http.StatusInternalServerError)
	case bare:
		s.paid++
		w.WriteHeader(http.StatusNoContent)
	case panicking:
		s.panics()
	case recovered:
		defer func() {
			if recover() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		s.panics()
	default:
		paid, err := s.sells(how)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, paid)
	}
}

// middleware is one on a store of its own; what it warns of is in the list.
func middleware(t *testing.T, warned *[]string) *idempotency.Middleware {
	t.Helper()
	m, err := idempotency.New(direct.Runs(runs.New(docstore.NewMemory(nil), nil), "shop", 0),
		func(*http.Request) string { return "ann" },
		&idempotency.Options{Name: "payments", Warn: func(_ *http.Request, err error) { *warned = append(*warned, err.Error()) }})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// send sends a request with a key; ended says that its connection was ended by a panic.
func send(t *testing.T, server *httptest.Server, path string) (status int, body string, replayed, ended bool) {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, server.URL+path, strings.NewReader("ten"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(idempotency.Header, "k1")
	r.GetBody = nil // net/http sends a request again whose connection ended, if it can
	got, err := server.Client().Do(r)
	if err != nil {
		return 0, "", false, true
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got.StatusCode, strings.TrimSpace(string(text)), got.Header.Get(idempotency.ReplayedHeader) == "true", false
}

// serve starts a server that is quiet about panics.
func serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// TestEachEnd: in every framework, each way in which a handler ends runs it once, and a retry gets what the first
// request got; after a panic, that it failed.
func TestEachEnd(t *testing.T) {
	status := map[string]int{ok: 201, declined: 402, broken: 500, recovered: 500, bare: 204}
	for name, framework := range all {
		for _, group := range []string{"", "/a/b"} {
			for _, how := range ends {
				t.Run(name+group+"/"+how, func(t *testing.T) {
					var s shop
					var warned []string
					server := serve(t, framework(&s, middleware(t, &warned)))
					first, body, replayed, ended := send(t, server, group+"/pay/"+how)
					if ended != (how == panicking) || first != status[how] || replayed {
						t.Errorf("the first: %d %q, replayed %v, ended %v", first, body, replayed, ended)
					}
					second, again, replayed, _ := send(t, server, group+"/pay/"+how)
					if how == panicking {
						if second != 500 || !strings.Contains(again, idempotency.CodeFailed) {
							t.Errorf("after a panic: %d %q", second, again)
						}
					} else if second != first || again != body || len(warned) != 0 {
						t.Errorf("the second: %d %q, the first %d %q; warned %q", second, again, first, body, warned)
					}
					if s.paid != 1 || !replayed {
						t.Errorf("paid %d times; replayed %v", s.paid, replayed)
					}
				})
			}
		}
	}
}

// TestNoRoute: the framework's own 404, whether it is stored or not.
func TestNoRoute(t *testing.T) {
	for name, framework := range all {
		for range 2 {
			var warned []string
			server := serve(t, framework(new(shop), middleware(t, &warned)))
			for range 2 {
				if got, body, _, _ := send(t, server, "/nowhere"); got != 404 || len(warned) != 0 || body == "" && name != "gorilla" {
					t.Errorf("%s: %d %q, warned %q", name, got, body, warned)
				}
			}
		}
	}
}

// TestRecoveredOutside: middleware outside makes a response of the panic; the key is used all the same.
func TestRecoveredOutside(t *testing.T) {
	for name, framework := range map[string]func(s *shop, m *idempotency.Middleware) http.Handler{
		"gin": func(s *shop, m *idempotency.Middleware) http.Handler {
			e := gin.New()
			e.Use(gin.CustomRecoveryWithWriter(nil, func(c *gin.Context, _ any) { c.AbortWithStatus(500) }), Gin(m))
			e.POST("/pay/:how", func(*gin.Context) { s.panics() })
			return e
		},
		"echo": func(s *shop, m *idempotency.Middleware) http.Handler {
			e := echo.New()
			e.Logger.SetOutput(io.Discard)
			e.Use(echomiddleware.Recover(), Echo(m))
			e.POST("/pay/:how", func(echo.Context) error { s.panics(); return nil })
			return e
		},
	} {
		var s shop
		var warned []string
		server := serve(t, framework(&s, middleware(t, &warned)))
		for range 2 {
			if got, body, _, ended := send(t, server, "/pay/panic"); got != 500 || ended {
				t.Errorf("%s: %d %q", name, got, body)
			}
		}
		if s.paid != 1 || len(warned) != 1 {
			t.Errorf("%s: paid %d times, warned %q", name, s.paid, warned)
		}
	}
}

// TestWithoutAnAdapter: what goes past the middleware is never stored as a success, and said.
func TestWithoutAnAdapter(t *testing.T) {
	for name, c := range map[string]struct {
		framework func(s *shop, m *idempotency.Middleware) http.Handler
		first     int // what the first caller gets
	}{
		"echo": {func(s *shop, m *idempotency.Middleware) http.Handler {
			e := echo.New()
			e.Use(echo.WrapMiddleware(m.Wrap))
			e.POST("/pay/:how", func(echo.Context) error { s.paid++; return echo.NewHTTPError(402, "no money") })
			return e
		}, 500},
		"gin": {func(s *shop, m *idempotency.Middleware) http.Handler {
			e := gin.New()
			e.Use(func(c *gin.Context) {
				m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { c.Next() })).ServeHTTP(c.Writer, c.Request)
				c.Abort()
			})
			e.POST("/pay/:how", func(c *gin.Context) { s.paid++; c.String(402, "no money") })
			return e
		}, 402},
	} {
		var s shop
		var warned []string
		server := serve(t, c.framework(&s, middleware(t, &warned)))
		if got, body, _, _ := send(t, server, "/pay/declined"); got != c.first || len(warned) != 1 ||
			c.first == 402 && body != "no money" {
			t.Errorf("%s: %d %q, warned %q", name, got, body, warned)
		}
		if got, body, _, _ := send(t, server, "/pay/declined"); got != 500 || !strings.Contains(body, idempotency.CodeMissing) ||
			s.paid != 1 {
			t.Errorf("%s, again: %d %q, paid %d times", name, got, body, s.paid)
		}
	}
}
