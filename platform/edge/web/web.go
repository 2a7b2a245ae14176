// Package web serves the pages: the live page of `run`, the shop of `serve`, and in
// both the page on which a phone confirms a login. They are plain files without
// third-party scripts, small enough to be deployed to a CDN unchanged.
//
// One document serves every URL: its script reads the query (`?qr=`, `?item=`,
// `?order=`, `?sessions`) and shows that page, so that a cache needs no knowledge of
// the queries.
package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"stampede/platform/edge/httpx"
)

//go:embed static
var files embed.FS

// The documents.
const (
	Live = "live.html"
	Shop = "shop.html"
)

// Pages adds `/`, which shows the named document, and /static/* to the router.
func Pages(rt *httpx.Router, page string) error {
	static, err := fs.Sub(files, "static")
	if err != nil {
		return fmt.Errorf("web: open pages: %w", err)
	}
	names, err := fs.Glob(static, "*")
	if err != nil {
		return fmt.Errorf("web: list pages: %w", err)
	}
	for _, name := range names {
		body, err := fs.ReadFile(static, name)
		if err != nil {
			return fmt.Errorf("web: read %s: %w", name, err)
		}
		rt.Handle(httpx.Static, http.MethodGet, "/static/"+name, serve(name, body, keepStatic))
		if name == page {
			rt.Handle(httpx.Static, http.MethodGet, "/", serve(name, body, keepPage))
			page = ""
		}
	}
	if page != "" {
		return fmt.Errorf("web: there is no page %s", page)
	}
	return nil
}

const (
	// keepStatic keeps a crowd's requests off the server, and bounds how long
	// scripts of two versions may coexist after an upgrade.
	keepStatic = "public, max-age=60"
	// keepPage makes caches revalidate each time; usually the answer is 304.
	keepPage = "no-cache"
)

// serve answers with one file. Embedded files have no date, so caches revalidate by
// the tag.
func serve(name string, body []byte, keep string) http.HandlerFunc {
	sum := sha256.Sum256(body)
	tag := fmt.Sprintf(`"%x"`, sum[:8])
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", keep)
		w.Header().Set("ETag", tag)
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(body))
	}
}
