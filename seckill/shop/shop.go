// Package shop serves the shop's pages, and in `run` the demo's: plain files without
// third-party scripts, small enough to be deployed to a CDN unchanged. Only where an
// outside verifier of human checks is set, its widget's script runs on the documents, when
// a check needs it; it can do what the page can.
//
// # Documents
//
// One template makes the document of every URL; the query (`?qr=`, `?item=`, `?order=`,
// `?orders`, `?account`, `?sessions`) says which, and the script fills it. What others
// show of a link is in the document: title, description and picture, for an item its
// own, as the API shows it. So is a picture of the item
// without its state, so that a phone has something to look at while it loads the script.
// A document depends on its URL and on Accept-Language alone, and caches may keep it for
// seconds, and use it for a minute while they ask for another: it has nothing that a
// shopper acts on. While the stores are away a document has no item, and the script asks
// again; only an item that does not exist makes it a 404.
//
// # Files
//
// The files of a document are in a folder named after the content of all of them, so
// that caches keep them forever and scripts of two versions never meet. `make generate`
// makes those in served of the sources in static: minified, and what every document
// loads as one file. They are compressed when the first browser asks for them.
//
// The element has one address, for the pages of other sites. A page that is open has the
// script of its day, which loads the solver, the worker, the verifier's widget and the
// drawn parcel by their names when it needs them: those keep their names, the solver its
// solve(challenge) and the widget its askWidget(verifier, page).
package shop

import (
	"context"
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"

	"stampede/platform/base/fault"
	"stampede/platform/edge/encoded"
	"stampede/platform/edge/httpx"
)

//go:embed served templates
var files embed.FS

const (
	// element is the module that pages of other sites load.
	element = "buy.js"
	// elementAccent is what stands before the accent of a page that names none.
	elementAccent = "--stampede-accent,"
	// keepForever is for files whose address names their content.
	keepForever = "public, max-age=31536000, immutable"
	// keepBriefly is for the same files by other addresses: their plain names, and the
	// folders of other versions, which documents of an instance of that version name
	// during an upgrade.
	keepBriefly = "public, max-age=60"
	// keepElement is for the element, whose address pages of other sites have for years: a
	// new version reaches them within a minute, also through one cache that counts from
	// its own copy's arrival. A cache may use the last one while no server answers.
	keepElement = "public, max-age=30, stale-if-error=86400"
	// versionBytes tell any two versions of the files apart.
	versionBytes = 6
)

// Config says whose pages these are.
type Config struct {
	Settings
	// BaseURL is how the world reaches the shop: what others link to is absolute.
	BaseURL string
	// Zone is the shop's, in which descriptions give times.
	Zone *time.Location
	// Item is an item as the API shows it to shoppers, as JSON; nil if nothing is published
	// under the id.
	Item func(ctx context.Context, id int64) ([]byte, error)
	// Codes says whether phones get codes by SMS: the pages offer no way that needs one
	// otherwise.
	Codes bool
	// LoginURL is where shoppers log in whose accounts the shop's own system has; empty if
	// they are here.
	LoginURL string
	// Widget is what the documents load for the widget of an outside verifier.
	Widget httpx.ThirdParty
}

// Pages adds the shop's documents and the files in /static/ to the router.
func Pages(rt *httpx.Router, cfg Config) error {
	bodies, err := read()
	if err != nil {
		return err
	}
	bodies = maps.Clone(bodies)
	logo, body, err := cfg.logo()
	if err != nil {
		return err
	}
	if logo != "" {
		bodies[logo] = body
	}
	bodies[element] = strings.Replace(bodies[element], elementAccent+usualAccent, elementAccent+cfg.ShopAccent, 1)
	version := versionOf(bodies)
	served := map[string]*encoded.File{}
	for name, body := range bodies {
		served[name] = encoded.New(name, body, encoded.Smallest)
	}
	p := &pages{Config: cfg, folder: "/static/" + version + "/", logo: cfg.ShopLogo}
	if logo != "" {
		p.logo = p.folder + logo
	}
	rt.Handle(httpx.Static, http.MethodGet, "/", rt.AllowThirdParty(cfg.Widget, p.page))
	if cfg.Demo {
		rt.Handle(httpx.Static, http.MethodGet, "/demo", p.live)
	}
	asset := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*") // a page of another site loads the element, and its workers
		f, ok := served[chi.URLParam(r, "name")]
		switch {
		case !ok:
			httpx.WriteProblem(w, r, errNoFile)
		case chi.URLParam(r, "version") == version:
			f.Serve(w, r, keepForever, http.StatusOK)
		case chi.URLParam(r, "name") == element:
			f.Serve(w, r, keepElement, http.StatusOK)
		default:
			f.Serve(w, r, keepBriefly, http.StatusOK)
		}
	}
	rt.Handle(httpx.Static, http.MethodGet, "/static/{name}", asset)
	rt.Handle(httpx.Static, http.MethodGet, "/static/{version}/{name}", asset)
	return nil
}

var errNoFile = fault.Plain(fault.NotFound, fault.T("There is no such file; load the page again.", "没有该文件，请刷新页面。"))

// read returns the files by name, as they are served. They are the same for every server
// of a process.
var read = sync.OnceValues(func() (map[string]string, error) {
	names, err := fs.Glob(files, "served/*")
	if err != nil {
		return nil, fmt.Errorf("shop: list pages: %w", err)
	}
	bodies := map[string]string{}
	for _, name := range names {
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("shop: read %s: %w", name, err)
		}
		bodies[path.Base(name)] = string(raw)
	}
	return bodies, nil
})

// versionOf names the content of all files.
func versionOf(bodies map[string]string) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(bodies)) {
		_, _ = fmt.Fprintf(sum, "%s %d\n%s", name, len(bodies[name]), bodies[name]) // a hash takes everything
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:versionBytes])
}
