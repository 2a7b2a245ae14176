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
// compressed once, at the start.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

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
	maps.DeleteFunc(bodies, func(name, _ string) bool { return path.Ext(name) == ".html" })
	version := versionOf(bodies)
	served := map[string]*file{}
	for name, body := range bodies {
		if served[name], err = newFile(name, body); err != nil {
			return err
		}
	}
	first, err := newFile(page, strings.ReplaceAll(document, `"/static/`, `"/static/`+version+"/"))
	if err != nil {
		return err
	}
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

// read returns the files by name, the modules as they are served.
func read() (map[string]string, error) {
	names, err := fs.Glob(files, "static/*")
	if err != nil {
		return nil, fmt.Errorf("web: list pages: %w", err)
	}
	bodies, modules := map[string]string{}, map[string]string{}
	for _, name := range names {
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("web: read %s: %w", name, err)
		}
		if path.Ext(name) == ".js" {
			modules[path.Base(name)] = string(raw)
		} else {
			bodies[path.Base(name)] = string(raw)
		}
	}
	if modules, err = bundle(modules); err != nil {
		return nil, err
	}
	maps.Copy(bodies, modules)
	return bodies, nil
}

// versionOf names the content of all files.
func versionOf(bodies map[string]string) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(bodies)) {
		_, _ = fmt.Fprintf(sum, "%s %d\n%s", name, len(bodies[name]), bodies[name]) // a hash takes everything
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:versionBytes])
}

// file is a file as it is sent.
type file struct {
	name       string
	plain, gz  []byte
	tag, gzTag string
}

func newFile(name, body string) (*file, error) {
	var small bytes.Buffer
	w, err := gzip.NewWriterLevel(&small, gzip.BestCompression)
	if err == nil {
		_, err = w.Write([]byte(body))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("web: compress %s: %w", name, err)
	}
	sum := sha256.Sum256([]byte(body))
	return &file{name, []byte(body), small.Bytes(), fmt.Sprintf(`"%x"`, sum[:8]), fmt.Sprintf(`"%x-gzip"`, sum[:8])}, nil
}

// serve answers with the file. Embedded files have no date, so caches revalidate by the
// tag, which is another one for the compressed form.
func (f *file) serve(w http.ResponseWriter, r *http.Request, keep string) {
	h := w.Header()
	h.Set("Cache-Control", keep)
	h.Add("Vary", "Accept-Encoding")
	body := f.plain
	h.Set("ETag", f.tag)
	if takesGzip(r.Header.Get("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		h.Set("ETag", f.gzTag)
		body = f.gz
	}
	http.ServeContent(w, r, f.name, time.Time{}, bytes.NewReader(body))
}

// takesGzip reports whether a client names gzip and does not give it the weight 0.
func takesGzip(accepted string) bool {
	for encoding := range strings.SplitSeq(accepted, ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(encoding), ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			weight = strings.TrimSpace(weight)
			return !strings.HasPrefix(weight, "q=0") || strings.Trim(weight, "q=0.") != ""
		}
	}
	return false
}
