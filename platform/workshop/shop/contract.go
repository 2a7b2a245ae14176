package shop

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"stampede/platform/workshop/httpxtest"
)

// contract is a transport that checks every answer of the API against the
// OpenAPI document: its status is documented for the route, its content type
// for the status, and the body is valid, without undocumented members. A
// generated client relies on all of this.
type contract struct{ t *testing.T }

// Checked is an HTTP client whose answers are checked against the contract.
func Checked(t *testing.T) *http.Client {
	t.Helper()
	return &http.Client{Transport: contract{t}}
}

// RoundTrip sends the request and checks the answer. Paths outside /api/v1 are
// pages and not in the document.
func (c contract) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil || !strings.HasPrefix(req.URL.Path, "/api/v1/") {
		return resp, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	doc, err := Documented()
	if err == nil {
		err = doc.check(c.t.Name(), req, resp, body)
	}
	if err != nil {
		c.t.Errorf("%s %s answered %d, against the OpenAPI document: %v\n%.1000s", req.Method, req.URL.Path, resp.StatusCode, err, body)
	}
	return resp, nil
}

// Exchange sends a request with a JSON body, anonymously if token is empty, and
// reads the answer, which is checked against the document.
func Exchange(t *testing.T, method, url, token, body string, headers ...string) httpxtest.Answer {
	t.Helper()
	return httpxtest.Send(t, Checked(t), method, url, token, body, headers...)
}

// Document is the OpenAPI document, prepared for checking answers.
type Document struct {
	tree   map[string]any
	routes *chi.Mux // finds the documented route of a path

	mu       sync.Mutex
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema
	seen     map[string]map[string]bool // by test: the operations that have answered with success
}

// Documented reads the committed document; another test checks that it equals
// the served one.
var Documented = sync.OnceValues(func() (*Document, error) {
	raw, err := os.ReadFile("platform/edge/httpx/openapi.json")
	if err != nil {
		return nil, err
	}
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	d := &Document{
		tree:   tree.(map[string]any), //nolint:errcheck // an object, as all of its readers expect
		routes: chi.NewRouter(), compiler: jsonschema.NewCompiler(),
		schemas: map[string]*jsonschema.Schema{}, seen: map[string]map[string]bool{},
	}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	for route, methods := range d.At("paths") {
		for method := range methods.(map[string]any) { //nolint:errcheck // as above
			d.routes.Method(strings.ToUpper(method), route, http.NotFoundHandler())
		}
	}
	return d, d.compiler.AddResource("openapi.json", tree)
})

// At returns the object at a path of the document; nil if there is none.
func (d *Document) At(path ...string) map[string]any {
	node := d.tree
	for _, step := range path {
		node, _ = node[step].(map[string]any)
	}
	return node
}

// Parameters returns the documented operation of a path and the names of its parameters.
func (d *Document) Parameters(method, path string) (operation string, names []string) {
	found := chi.NewRouteContext()
	if !d.routes.Match(found, method, path) {
		return "", nil
	}
	list, _ := d.At("paths", found.RoutePattern(), strings.ToLower(method))["parameters"].([]any)
	for _, p := range list {
		name, _ := p.(map[string]any)["name"].(string)
		names = append(names, name)
	}
	return method + " " + found.RoutePattern(), names
}

// check compares an answer with the document and records operations seen to succeed.
func (d *Document) check(test string, req *http.Request, resp *http.Response, body []byte) error {
	method := req.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	found := chi.NewRouteContext()
	if !d.routes.Match(found, method, req.URL.EscapedPath()) {
		if resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusMethodNotAllowed {
			return fmt.Errorf("there is no such route")
		}
		return d.valid(body, "components", "schemas", "Problem")
	}
	status := strconv.Itoa(resp.StatusCode)
	route := []string{"paths", found.RoutePattern(), strings.ToLower(method), "responses", status}
	answer := d.At(route...)
	if answer == nil {
		return fmt.Errorf("the status is not documented for the route")
	}
	if resp.StatusCode >= http.StatusBadRequest && strings.HasPrefix(found.RoutePattern(), "/api/v1/admin/") && !bytes.Contains(body, []byte(`"next":"`)) {
		return fmt.Errorf("the refusal of an operator does not say what to do instead")
	}
	for _, field := range []string{"Idempotency-Replayed", "Retry-After"} {
		if resp.Header.Get(field) != "" && d.At(append(route, "headers", field)...) == nil {
			return fmt.Errorf("its header %s is not documented", field)
		}
	}
	if limit := resp.Header.Get("RateLimit"); limit != "" && (resp.StatusCode < 300 || resp.StatusCode == http.StatusTooManyRequests) && d.At(append(route, "headers", "RateLimit")...) == nil {
		return fmt.Errorf("its header RateLimit, %s, is not documented", limit)
	}
	if resp.StatusCode < http.StatusBadRequest {
		d.note(test, method+" "+found.RoutePattern())
	}
	contents := d.At(append(route, "content")...)
	if len(contents) == 0 || len(body) == 0 {
		if len(body) > 0 || len(contents) > 0 && req.Method != http.MethodHead {
			return fmt.Errorf("the body has %d bytes, and %d content types are documented", len(body), len(contents))
		}
		return nil
	}
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	if contents["*/*"] != nil {
		return nil // any document is allowed
	}
	if contents[kind] == nil {
		return fmt.Errorf("the content type %s is not documented", kind)
	}
	if !strings.HasSuffix(kind, "json") {
		return nil
	}
	return d.valid(body, append(route, "content", kind, "schema")...)
}

// Succeeded returns the operations that have answered a test with success.
func (d *Document) Succeeded(test string) map[string]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.seen[test])
}

func (d *Document) note(test, operation string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen[test] == nil {
		d.seen[test] = map[string]bool{}
	}
	d.seen[test][operation] = true
}

// valid checks a JSON body against the schema at a path of the document.
func (d *Document) valid(body []byte, path ...string) error {
	schema, err := d.schema(path)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

func (d *Document) schema(path []string) (*jsonschema.Schema, error) {
	escaped := []string{"openapi.json#"}
	for _, step := range path {
		escaped = append(escaped, url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(step)))
	}
	pointer := strings.Join(escaped, "/")
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.schemas[pointer] == nil {
		schema, err := d.compiler.Compile(pointer)
		if err != nil {
			return nil, err
		}
		d.schemas[pointer] = schema
	}
	return d.schemas[pointer], nil
}
