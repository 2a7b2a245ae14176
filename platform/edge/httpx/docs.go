package httpx

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/swaggest/swgui/v5/static"

	"stampede/platform/base/fault"
	"stampede/platform/edge/encoded"
)

// docsPage shows the OpenAPI document with the embedded Swagger UI, so that it works
// offline. The program adds /docs/start.
const docsPage = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Stampede API</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/docs/ui/swagger-ui.css"><link rel="icon" href="data:,">
<style>nav{font:16px/1.6 system-ui;padding:14px 20px}nav a{display:inline-block;margin-right:20px}</style>
<nav><a href="/docs/start">Quick start <span lang="zh">快速开始</span></a> <a href="/docs/problems">Problem codes <span lang="zh">错误码</span></a></nav>
<div id="ui"></div>
<script src="/docs/ui/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
`

const docsScript = `SwaggerUIBundle({url: "/openapi.json", dom_id: "#ui", deepLinking: true});
`

var problemsPage = template.Must(template.New("problems").Parse(`<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Stampede problem codes</title>
<style>:root{color-scheme:light dark}body{font:16px/1.5 system-ui;max-width:46rem;margin:2rem auto;padding:0 1rem}td,th{text-align:left;padding:.3rem 1rem .3rem 0;vertical-align:top}:target{background:#ffd;color:#111}
@media(max-width:700px){tr,td{display:block}th{display:none}tr{padding:.6rem 0;border-bottom:1px solid #8886}td{padding:0;overflow-wrap:anywhere}}</style>
<h1>Problem codes</h1><p>Every error is <code>application/problem+json</code> with a stable <code>code</code>.</p>
<table><tr><th>code<th>title<th>标题<th>instead<th>怎么办</tr>
{{range .}}<tr id="{{.Code}}"><td><code>{{.Code}}</code><td>{{.English}}<td lang="zh">{{.Chinese}}<td>{{.Next}}<td lang="zh">{{.NextChinese}}</tr>
{{end}}</table>`))

// Version is the API's version in the next release, see the package.
const Version = "0.11.0"

// documentLevels is how deep Document breaks lines: three levels put each operation and
// each schema on a line of its own, so that a diff names what changed.
const documentLevels = 3

// Document returns the OpenAPI 3.1 document with sorted keys: the same bytes for the
// same routes, so that a committed copy can be compared.
func (rt *Router) Document() ([]byte, error) {
	rt.complete()
	raw, err := json.Marshal(rt.API.Huma.OpenAPI())
	if err != nil {
		return nil, fmt.Errorf("httpx: encode OpenAPI: %w", err)
	}
	var tree any // a round trip through maps sorts the keys
	if err := json.Unmarshal(raw, &tree); err != nil {
		return nil, fmt.Errorf("httpx: order OpenAPI: %w", err)
	}
	var out bytes.Buffer
	if err := writeMembers(&out, tree, documentLevels); err != nil {
		return nil, fmt.Errorf("httpx: encode OpenAPI: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// writeMembers writes an object with one line for each member, and its members' values
// likewise for as many levels; everything deeper is compact.
func writeMembers(out *bytes.Buffer, node any, levels int) error {
	object, ok := node.(map[string]any)
	if !ok || levels == 0 || len(object) == 0 {
		raw, err := json.Marshal(node)
		out.Write(raw)
		return err
	}
	separator := "{\n"
	for _, key := range slices.Sorted(maps.Keys(object)) {
		name, err := json.Marshal(key)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s%s: ", separator, name)
		if err := writeMembers(out, object[key], levels-1); err != nil {
			return err
		}
		separator = ",\n"
	}
	out.WriteString("\n}")
	return nil
}

// ServeDocs adds /openapi.json and /docs. Call it after every module has
// registered its routes: the document is rendered once, for the first request,
// because it is a noticeable part of a start and few processes serve it.
func (rt *Router) ServeDocs() error {
	type row struct{ Code, English, Chinese, Next, NextChinese string }
	var rows []row
	for code, e := range fault.Codes() {
		rows = append(rows, row{code, e.Title[English], e.Title[Chinese], e.Next[English], e.Next[Chinese]})
	}
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.Code, b.Code) })
	var problems strings.Builder
	if err := problemsPage.Execute(&problems, rows); err != nil {
		return fmt.Errorf("httpx: render problem codes: %w", err)
	}
	for path, page := range map[string]http.HandlerFunc{
		"/docs":          text("text/html; charset=utf-8", docsPage),
		"/docs/start.js": text("text/javascript; charset=utf-8", docsScript),
		"/docs/problems": text("text/html; charset=utf-8", problems.String()),
		"/openapi.json": lazily(func() (http.HandlerFunc, error) {
			raw, err := rt.Document()
			return text("application/json", string(raw)), err
		}),
		"/docs/ui/swagger-ui.css":       lazily(func() (http.HandlerFunc, error) { return uiFile("swagger-ui.css", "text/css") }),
		"/docs/ui/swagger-ui-bundle.js": lazily(func() (http.HandlerFunc, error) { return uiFile("swagger-ui-bundle.js", "text/javascript") }),
	} {
		rt.Handle(Static, http.MethodGet, path, page)
	}
	return nil
}

// lazily serves a page that is made for its first request.
func lazily(makes func() (http.HandlerFunc, error)) http.HandlerFunc {
	made := sync.OnceValues(makes)
	return func(w http.ResponseWriter, r *http.Request) {
		page, err := made()
		if err != nil {
			WriteProblem(w, r, err)
			return
		}
		page(w, r)
	}
}

// uiFile unpacks a file of the Swagger UI: the program has them compressed, and few processes serve them.
func uiFile(name, contentType string) (http.HandlerFunc, error) {
	packed, err := static.FS.Open(name + ".gz")
	var unpacked io.Reader
	if err == nil {
		unpacked, err = gzip.NewReader(packed)
	}
	var body []byte
	if err == nil {
		body, err = io.ReadAll(unpacked)
	}
	if err != nil {
		return nil, fmt.Errorf("httpx: unpack Swagger UI: %w", err)
	}
	page := text(contentType+"; charset=utf-8", string(body))
	return func(w http.ResponseWriter, r *http.Request) {
		// The larger is 1.4 MB for a client without compression: one that sends a
		// hundred requests at once and reads slowly gets one.
		w.Header().Set("Connection", "close")
		page(w, r)
	}, nil
}

// text serves a page that does not change while this process runs: a cache keeps it,
// and revalidates it by its hash.
func text(contentType, body string) http.HandlerFunc {
	page := encoded.New("", body, encoded.Quickly)
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		page.Serve(w, r, "no-cache", http.StatusOK)
	}
}

// schemaName is a type's name in the document. A generated client has the types of
// all packages side by side, so a type is named for its role in the shop. Endings
// that distinguish it from a table's row are dropped, a page is named for its rows,
// and an unnamed struct takes its field's tag nameHint. huma refuses two types with
// one name at the start.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	if row, page := strings.CutPrefix(name, "Page"); page {
		return documented(row) + "Page"
	}
	return documented(name)
}

func documented(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, "View"), "Input")
}
