package httpx

import (
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"

	swagger "github.com/swaggo/files/v2"
)

// docsPage shows the OpenAPI document with the Swagger UI that is compiled in,
// so that it works without the internet.
const docsPage = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Stampede API</title>
<link rel="stylesheet" href="/docs/ui/swagger-ui.css"><link rel="icon" href="data:,">
<div id="ui"></div>
<script src="/docs/ui/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
`

const docsScript = `SwaggerUIBundle({url: "/openapi.json", dom_id: "#ui", deepLinking: true, persistAuthorization: true});
`

var problemsPage = template.Must(template.New("problems").Parse(`<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Stampede problem codes</title>
<style>body{font:16px/1.5 system-ui;max-width:46rem;margin:2rem auto;padding:0 1rem}td,th{text-align:left;padding:.3rem 1rem .3rem 0;vertical-align:top}:target{background:#ffd}</style>
<h1>Problem codes</h1><p>Every error is <code>application/problem+json</code> with a stable <code>code</code>.</p>
<table><tr><th>code<th>title<th>标题</tr>
{{range .}}<tr id="{{.Code}}"><td><code>{{.Code}}</code><td>{{.English}}<td lang="zh">{{.Chinese}}</tr>
{{end}}</table>`))

// Document returns the OpenAPI 3.1 document as indented JSON with sorted keys:
// the same bytes for the same routes, so that a committed copy can be compared.
func (rt *Router) Document() ([]byte, error) {
	raw, err := json.Marshal(rt.API.Huma.OpenAPI())
	if err != nil {
		return nil, fmt.Errorf("httpx: encode OpenAPI: %w", err)
	}
	var tree any // a round trip through maps sorts the keys
	if err := json.Unmarshal(raw, &tree); err != nil {
		return nil, fmt.Errorf("httpx: order OpenAPI: %w", err)
	}
	out, err := json.MarshalIndent(tree, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("httpx: encode OpenAPI: %w", err)
	}
	return append(out, '\n'), nil
}

// ServeDocs adds /openapi.json and /docs. Call it after every module has
// registered its routes: the document is rendered once.
func (rt *Router) ServeDocs() error {
	doc, err := rt.Document()
	if err != nil {
		return err
	}
	static := func(contentType string, body []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = w.Write(body) // the client may be gone
		}
	}
	type row struct{ Code, English, Chinese string }
	rows := make([]row, 0, len(titles))
	for code, t := range titles {
		rows = append(rows, row{code, t[English], t[Chinese]})
	}
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.Code, b.Code) })
	var problems strings.Builder
	if err := problemsPage.Execute(&problems, rows); err != nil {
		return fmt.Errorf("httpx: render problem codes: %w", err)
	}
	rt.Mux.Get("/openapi.json", static("application/json", doc))
	rt.Mux.Get("/docs", static("text/html; charset=utf-8", []byte(docsPage)))
	rt.Mux.Get("/docs/start.js", static("text/javascript; charset=utf-8", []byte(docsScript)))
	rt.Mux.Get("/docs/problems", static("text/html; charset=utf-8", []byte(problems.String())))
	rt.Mux.Handle("/docs/ui/*", http.StripPrefix("/docs/ui/", http.FileServerFS(swagger.FS)))
	return nil
}
