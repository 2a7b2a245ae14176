// Package web serves the pages: the live page of `run`, the shop of `serve`, and in
// both the page on which a phone confirms a login. They are plain files without
// third-party scripts, small enough to be deployed to a CDN unchanged.
//
// One document serves every URL: its script reads the query (`?qr=`, `?item=`,
// `?order=`, `?orders`, `?sessions`) and shows that page, so that a cache needs no
// knowledge of the queries.
//
// The files of a document are in a folder named after the content of all of them, so
// that caches keep them forever and scripts of two versions never meet. They are
// minified at the start, and compressed when the first browser asks for them.
package web

import (
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

	"github.com/go-chi/chi/v5"

	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
)

//go:embed static
var files embed.FS

// The documents.
const (
	Live = "live.html"
	Shop = "shop.html"
)

const (
	// keepForever is for files whose address names their content.
	keepForever = "public, max-age=31536000, immutable"
	// keepBriefly is for the same files by other addresses: their plain names, and the
	// folders of other versions, which documents of an instance of that version name
	// during an upgrade.
	keepBriefly = "public, max-age=60"
	// keepPage makes caches revalidate each time; usually the answer is 304.
	keepPage = "no-cache"
	// versionBytes tell any two versions of the files apart.
	versionBytes = 6
)

// Pages adds `/`, which shows the named document, and the files in /static/ to the
// router.
func Pages(rt *httpx.Router, page string) error {
	bodies, err := read()
	if err != nil {
		return err
	}
	document, ok := bodies[page]
	if !ok {
		return fmt.Errorf("web: there is no page %s", page)
	}
	bodies = maps.Clone(bodies)
	maps.DeleteFunc(bodies, func(name, _ string) bool { return path.Ext(name) == ".html" })
	version := versionOf(bodies)
	served := map[string]*file{}
	for name, body := range bodies {
		served[name] = newFile(name, body)
	}
	first := newFile(page, strings.ReplaceAll(document, `"/static/`, `"/static/`+version+"/"))
	rt.Handle(httpx.Static, http.MethodGet, "/", func(w http.ResponseWriter, r *http.Request) { first.serve(w, r, keepPage) })
	asset := func(w http.ResponseWriter, r *http.Request) {
		f, ok := served[chi.URLParam(r, "name")]
		switch {
		case !ok:
			httpx.WriteProblem(w, r, errNoFile)
		case chi.URLParam(r, "version") == version:
			f.serve(w, r, keepForever)
		default:
			f.serve(w, r, keepBriefly)
		}
	}
	rt.Handle(httpx.Static, http.MethodGet, "/static/{name}", asset)
	rt.Handle(httpx.Static, http.MethodGet, "/static/{version}/{name}", asset)
	return nil
}

var errNoFile = fault.Plain(fault.NotFound, "There is no such file; load the page again.")

// read returns the files by name, as they are served. They are the same for every server
// of a process.
var read = sync.OnceValues(func() (map[string]string, error) {
	names, err := fs.Glob(files, "static/*")
	if err != nil {
		return nil, fmt.Errorf("web: list pages: %w", err)
	}
	sources := map[string]string{}
	for _, name := range names {
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("web: read %s: %w", name, err)
		}
		sources[path.Base(name)] = string(raw)
	}
	return bundle(sources)
})

// versionOf names the content of all files.
func versionOf(bodies map[string]string) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(bodies)) {
		_, _ = fmt.Fprintf(sum, "%s %d\n%s", name, len(bodies[name]), bodies[name]) // a hash takes everything
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:versionBytes])
}
