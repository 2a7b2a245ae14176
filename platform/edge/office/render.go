package office

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
)

//go:embed templates static
var files embed.FS

// baseTemplates are the layout and the parts that pages use.
func baseTemplates() (*template.Template, error) {
	base, err := template.New("").ParseFS(files, "templates/layout.html", "templates/parts.html")
	if err != nil {
		return nil, fmt.Errorf("office: templates: %w", err)
	}
	return base, nil
}

// parse reads a page's template, which may use the parts.
func (o *Office) parse(from fs.FS, name string) (*template.Template, error) {
	page, err := o.base.Clone()
	if err == nil {
		page, err = page.ParseFS(from, name)
	}
	if err != nil {
		return nil, fmt.Errorf("office: template %s: %w", name, err)
	}
	if page.Lookup("content") == nil {
		return nil, fmt.Errorf("office: template %s does not define content", name)
	}
	return page, nil
}

// render answers with a page in the layout. The answer is made before the first byte is
// sent, so that a template that fails is a 500 and not half a page.
func (o *Office) render(c *Call, status int, page *template.Template, view *View) {
	view.Call = c
	var out bytes.Buffer
	err := page.ExecuteTemplate(&out, "layout", view)
	if c.failed != nil && !c.failed.shown && !view.Loose {
		// The page does not list the form any more, because what it is about has changed.
		out.Reset()
		view.Loose = true
		err = page.ExecuteTemplate(&out, "layout", view)
	}
	if err != nil {
		o.deps.Log.ErrorContext(c.r.Context(), "office page failed", "path", c.r.URL.Path, "error", err)
		http.Error(c.w, c.T("This page failed; its request id is ", "页面出错，请求编号：")+httpx.RequestID(c.r.Context()), http.StatusInternalServerError)
		return
	}
	if c.changed {
		o.keep(c.w, c.session)
	}
	c.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	c.w.WriteHeader(status)
	_, _ = out.WriteTo(c.w) // the browser may have left
}

// sayProblem shows what went wrong on a page of its own: the refusal of a form rather than of the
// page that was to show it, with what was sent.
func (o *Office) sayProblem(c *Call, err error) {
	p, told := errors.AsType[*Problem](err)
	if !told {
		o.deps.Log.ErrorContext(c.r.Context(), "office request failed", "path", c.r.URL.Path, "error", err)
		p = &Problem{
			Status: http.StatusInternalServerError, Code: "internal", RequestID: httpx.RequestID(c.r.Context()),
			Title: c.T("Something failed on our side", "服务出错了"), Next: c.T("Try again; if it stays, quote the request id.", "请重试；若仍失败，请提供请求编号。"),
		}
	}
	view := &View{Problem: p, Bare: c.session == nil, Data: map[string]any{"retry": retry(c)}}
	if c.failed != nil && c.session != nil { // instead of the form's page, which cannot be shown
		c.failed.shown, view.Problem, view.Data = true, c.failed.problem, map[string]any{"form": kept(c)}
	}
	view.Title = Text{view.Problem.Title, view.Problem.Title}
	o.render(c, view.Problem.Status, o.own["problem.html"], view)
}

// Words renders texts and values of the API in an operator's language and the shop's zone.
type Words struct {
	Lang   httpx.Language
	office *Office
	own    map[string]Text // of the page's section
}

// T returns one of two texts by the page's language.
func (c Words) T(english, chinese string) string { return Text{english, chinese}[c.Lang] }

// In returns a text in the page's language.
func (c Words) In(t Text) string { return t[c.Lang] }

// Word returns an enumerated value of the API in words.
func (c Words) Word(value any) string {
	word := text(value)
	for _, words := range []map[string]Text{c.own, c.office.words} {
		if t, ok := words[word]; ok {
			return t[c.Lang]
		}
	}
	return word
}

// May reports whether the operator has a role, by name.
func (c *Call) May(role string) bool { return c.Who.Role.May(auth.Role(role)) }

// ShopName is the shop's.
func (c Words) ShopName() string { return c.office.deps.ShopName }

// Money renders an amount of the API, {amount, currency}.
func (c Words) Money(value any) string {
	money, _ := value.(map[string]any)
	if money == nil {
		return ""
	}
	minor, _ := strconv.ParseInt(text(money["amount"]), 10, 64)
	code := text(money["currency"])
	if code == "CNY" {
		return "¥" + mainUnits(minor, code)
	}
	return mainUnits(minor, code) + " " + code
}

// Size renders a number of bytes.
func (c Words) Size(value any) string {
	bytes, _ := strconv.ParseFloat(text(value), 64)
	return strconv.FormatFloat(bytes/1e6, 'f', 1, 64) + " MB"
}

// Time renders a time of the API in the shop's zone.
func (c Words) Time(value any) template.HTML {
	at, err := time.Parse(time.RFC3339, text(value))
	if err != nil {
		return ""
	}
	return template.HTML(`<time datetime="` + at.UTC().Format(time.RFC3339) + `">` + at.In(c.office.deps.Zone).Format("2006-01-02 15:04:05") + `</time>`) //nolint:gosec // digits and punctuation
}

// ForField renders a time of the API for a field of dates with times.
func (c Words) ForField(value any) string {
	at, err := time.Parse(time.RFC3339, text(value))
	if err != nil {
		return ""
	}
	if at = at.In(c.office.deps.Zone); at.Second() != 0 {
		return at.Format("2006-01-02T15:04:05")
	}
	return at.Format("2006-01-02T15:04")
}

// Today is the date in the shop's zone, some days later.
func (c Words) Today(later int) string {
	return c.office.now().In(c.office.deps.Zone).AddDate(0, 0, later).Format(time.DateOnly)
}

// Past reports whether a moment of the API is over.
func (c Words) Past(value any) bool {
	at, err := time.Parse(time.RFC3339, text(value))
	return err == nil && at.Before(c.office.now())
}

// Zone is the name of the shop's zone.
func (c Words) Zone() string { return c.office.deps.Zone.String() }

// InZone is the shop's zone.
func (c Words) InZone() *time.Location { return c.office.deps.Zone }

// Tongue is the language of a text of the API, which words some refusals in English only.
func (c Words) Tongue(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Han, r) }) {
		return languageTags[httpx.Chinese]
	}
	return languageTags[httpx.English]
}

// Short is a number's beginning and end, for tables; its link has all of it.
func (c Words) Short(value any) string {
	const ends = 6
	if s := text(value); len(s) > 2*ends+1 {
		return s[:ends] + "…" + s[len(s)-ends:]
	}
	return text(value)
}

// Pretty renders a nested document.
func (c Words) Pretty(value any) string {
	raw, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return ""
	}
	return string(raw)
}

// text renders a value of a JSON document or a template.
func text(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case auth.Role:
		return string(v)
	default:
		return fmt.Sprint(v)
	}
}

// Menu are the entries that the operator's role may open.
func (c *Call) Menu() (entries []Entry) {
	for _, later := range []bool{false, true} {
		for _, e := range c.office.menu {
			if c.Who.Role.May(e.Role) && e.Later == later {
				entries = append(entries, e)
			}
		}
	}
	return entries
}

// Here reports whether an entry is the page's.
func (c *Call) Here(e Entry) bool {
	return c.r.URL.Path == e.Path || strings.HasPrefix(c.r.URL.Path, e.Path+"/")
}

// Phone is what the operator signed in with, masked.
func (c *Call) Phone() string {
	if c.session == nil {
		return ""
	}
	const shown = 4
	return "…" + c.session.Phone[max(0, len(c.session.Phone)-shown):]
}

// OtherLanguage is the address of this page in the other language.
func (c *Call) OtherLanguage() string {
	if c.r.Method != http.MethodGet {
		return root + "?language=" + languageTags[1-c.Lang]
	}
	return c.with("language", languageTags[1-c.Lang])
}

// Tag is the page's language as the html element has it.
func (c Words) Tag() string { return languageTags[c.Lang] }

// Path is the page's own.
func (c *Call) Path() string { return c.r.URL.Path }

// retry is the page to try again on: that of the form for a form that was not read, whose own path
// has no page, else the section's.
func retry(c *Call) string {
	if c.r.Method == http.MethodGet {
		return c.Path()
	}
	if from, err := url.Parse(c.r.Referer()); err == nil && from.Host == c.r.Host {
		_, pattern := c.office.mux.Handler(&http.Request{Method: http.MethodGet, URL: from, Host: from.Host})
		if strings.HasPrefix(pattern, http.MethodGet) {
			return from.RequestURI()
		}
	}
	for _, e := range c.office.menu {
		if c.Here(e) {
			return e.Path
		}
	}
	return root
}

// File is the address of a static file, which changes with its content.
func (c *Call) File(name string) string { return root + "/static/" + name + "?" + fileTags[name] }

// fileTags are the hashes of the static files.
var fileTags = tagFiles()

func tagFiles() map[string]string {
	tags := map[string]string{}
	entries, _ := fs.ReadDir(files, "static") // embedded
	for _, e := range entries {
		raw, _ := fs.ReadFile(files, "static/"+e.Name())
		sum := sha256.Sum256(raw)
		const enough = 6
		tags[e.Name()] = hex.EncodeToString(sum[:enough])
	}
	return tags
}

// serveFile answers with a static file; its address has its hash, so that browsers keep
// it.
func (o *Office) serveFile(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeFileFS(w, r, files, "static/"+r.PathValue("name"))
}
