// Package web serves the pages: the live page of `run`, the session list of
// `serve`. They are plain files without any third-party script, small enough to
// be put on a CDN as they are.
package web

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"stampede/platform/httpx"
)

//go:embed static
var files embed.FS

// Pages adds `/`, which shows the named page, and /static/* to the router.
func Pages(rt *httpx.Router, page string) error {
	static, err := fs.Sub(files, "static")
	if err != nil {
		return fmt.Errorf("web: open pages: %w", err)
	}
	body, err := fs.ReadFile(static, page)
	if err != nil {
		return fmt.Errorf("web: read %s: %w", page, err)
	}
	rt.Mux.Get("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		http.ServeContent(w, r, page, time.Time{}, bytes.NewReader(body))
	})
	rt.Mux.Handle("/static/*", http.StripPrefix("/static/", http.FileServerFS(static)))
	return nil
}

// The pages.
const (
	Live = "live.html"
	Shop = "shop.html"
)
