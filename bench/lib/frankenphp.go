// Caddy with FrankenPHP's Go module, as bench/frankenphp builds it for bench/rivals.
//
// Caddy runs PHP by the directive `php` below, which hands a request to the library and adds nothing to it. FrankenPHP's own Caddy module
// (github.com/dunglas/frankenphp/caddy) does the same in classic mode, with more options; it has worker mode, Mercure and Vulcain besides.
package main

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"github.com/dunglas/frankenphp"
)

// php is the handler of `php ROOT THREADS MOST_THREADS`: where the site is, how many threads PHP starts with, and how many it may have.
type php struct {
	Root    string `json:"root"`
	Threads int    `json:"threads"`
	Most    int    `json:"most"`

	options []frankenphp.RequestOption
}

func main() {
	caddy.RegisterModule(php{})
	httpcaddyfile.RegisterHandlerDirective("php", directive)
	caddycmd.Main()
}

func (php) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.php", New: func() caddy.Module { return new(php) }}
}

// directive reads `php ROOT THREADS MOST_THREADS`.
func directive(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	var threads, most string
	made := new(php)
	if h.Next(); !h.Args(&made.Root, &threads, &most) {
		return nil, h.ArgErr()
	}
	var wrong [2]error
	made.Threads, wrong[0] = strconv.Atoi(threads)
	made.Most, wrong[1] = strconv.Atoi(most)
	return made, errors.Join(wrong[:]...)
}

// Provision starts PHP.
func (p *php) Provision(ctx caddy.Context) error {
	split, err := frankenphp.WithRequestSplitPath([]string{".php"})
	if err != nil {
		return err
	}
	p.options = []frankenphp.RequestOption{split, frankenphp.WithRequestResolvedDocumentRoot(p.Root)}
	return frankenphp.Init(frankenphp.WithContext(ctx), frankenphp.WithNumThreads(p.Threads), frankenphp.WithMaxThreads(p.Most))
}

// Cleanup ends PHP.
func (*php) Cleanup() error {
	frankenphp.Shutdown()
	return nil
}

func (p *php) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	original := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request)
	options := append([]frankenphp.RequestOption{frankenphp.WithOriginalRequest(&original)}, p.options...)
	request, err := frankenphp.NewRequestWithContext(r, options...)
	if err == nil {
		err = frankenphp.ServeHTTP(w, request)
	}
	if err != nil && !errors.As(err, new(frankenphp.ErrRejected)) {
		return caddyhttp.Error(http.StatusInternalServerError, err)
	}
	return nil
}
