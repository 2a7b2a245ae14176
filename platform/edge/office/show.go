package office

import (
	"html/template"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"stampede/platform/edge/auth"
)

// View is what a template gets.
type View struct {
	*Call
	Title Text
	// Data has the page's documents by name.
	Data map[string]any
	// Filters are a list's search form.
	Filters []FieldView
	Problem *Problem
	// Done says what the operator's last form did.
	Done string
	page string // its pattern
	// Loose says that no form of the page shows Problem.
	Loose bool
	// Bare leaves the navigation out, on pages before the sign-in.
	Bare bool
}

// Marks are the attributes of an input that has a flaw, on a page without Fields; FlawAt
// with the same id says what it is.
func (v *View) Marks(id, name string) template.HTMLAttr {
	if v.Problem.of(name) == "" {
		return ""
	}
	return template.HTMLAttr(`aria-invalid="true" aria-describedby="` + id + `-flaw"`) //nolint:gosec // a constant of a template
}

// FlawAt is what is wrong with an input.
func (v *View) FlawAt(id, name string) template.HTML {
	says := v.Problem.of(name)
	if says == "" {
		return ""
	}
	return template.HTML(`<p class="flaw" id="` + id + `-flaw">` + template.HTMLEscapeString(says) + `</p>`) //nolint:gosec // escaped
}

// show answers with a page.
func (o *Office) show(c *Call, p *Page, shown *template.Template) {
	view := &View{Title: p.Title, page: p.Path}
	status := http.StatusOK
	var err error
	if p.Load != nil {
		view.Data, err = p.Load(c)
	} else {
		view.Data, err = c.read(p)
	}
	if err != nil {
		o.endOrSay(c, err)
		return
	}
	view.Filters = c.filters(p.Filters)
	if a := o.acts[c.Query().Get("done")]; a != nil {
		view.Done = c.In(a.Done)
	}
	if c.failed != nil {
		view.Problem, status = c.failed.problem, c.failed.problem.Status
	}
	o.render(c, status, shown, view)
}

// read reads a page's documents.
func (c *Call) read(p *Page) (map[string]any, error) {
	data := make(map[string]any, len(p.Reads))
	for _, r := range p.Reads {
		var query url.Values
		if r.Query {
			query = c.Filled(p.Filters)
		}
		doc, err := c.Get(fill(r.Path, c.Value), query)
		if err != nil {
			return nil, err
		}
		data[r.Name] = doc
	}
	return data, nil
}

// Filled returns the filters that the page's query gives, as the API takes them, and
// the cursor.
func (c *Call) Filled(filters []Field) url.Values {
	given, query := c.Query(), url.Values{}
	for i := range filters {
		f := &filters[i]
		if text := given.Get(f.Name); text != "" {
			query.Set(f.Name, c.asQuery(f, text))
		}
	}
	if cursor := given.Get("cursor"); cursor != "" {
		query.Set("cursor", cursor)
	}
	return query
}

// asQuery renders a typed value for the API's query; what cannot be read goes as it is,
// and the API says what is wrong with it.
func (c *Call) asQuery(f *Field, text string) string {
	if f.Kind == Moment || f.Kind == Day {
		if at, err := c.office.moment(text); err == nil {
			return at
		}
	}
	return text
}

// filters are the search form's fields with what the query has.
func (c *Call) filters(fields []Field) []FieldView {
	views := make([]FieldView, len(fields))
	for i := range fields {
		views[i] = FieldView{Field: fields[i], filter: true, c: c, Text: c.Query().Get(fields[i].Name), ID: "f-" + fields[i].Name}
	}
	return views
}

// mainFilters is how many fields a search form shows at once; the others are folded.
const mainFilters = 3

// MainFilters are the fields that a search form shows at once.
func (v *View) MainFilters() []FieldView { return v.Filters[:min(mainFilters, len(v.Filters))] }

// MoreFilters are the others.
func (v *View) MoreFilters() []FieldView { return v.Filters[min(mainFilters, len(v.Filters)):] }

// Narrowed reports whether one of the others is in use.
func (v *View) Narrowed() bool { return slices.ContainsFunc(v.MoreFilters(), typed) }

// Searched reports whether any field of the search form is in use.
func (v *View) Searched() bool { return slices.ContainsFunc(v.Filters, typed) }

func typed(f FieldView) bool { return f.Text != "" }

// Next is the address of a list's next page, "" on the last one. list is the API's
// answer.
func (c *Call) Next(list map[string]any) string {
	cursor, _ := list["next_cursor"].(string)
	if cursor == "" {
		return ""
	}
	return c.with("cursor", cursor)
}

// First is the address of a list's first page, "" on it.
func (c *Call) First() string {
	if c.Query().Get("cursor") == "" {
		return ""
	}
	return c.with("cursor", "")
}

// with returns the page's address with another parameter.
func (c *Call) with(name, value string) string {
	q := c.Query()
	q.Del("done")
	if q.Del(name); value != "" {
		q.Set(name, value)
	}
	u := url.URL{Path: c.r.URL.Path, RawQuery: q.Encode()}
	return u.RequestURI()
}

// forbidden is the refusal of a page for whose role an operator's is too low.
func (c *Call) forbidden(need auth.Role) *Problem {
	return &Problem{
		Status: http.StatusForbidden, Code: "forbidden",
		Title: c.T("Your role may not open this page", "您的角色无权打开此页面"),
		Next:  c.T("Ask an admin for the role: ", "请联系管理员授予角色：") + c.Word(string(need)),
	}
}

// download passes an answer of the API on, while it is written.
func (o *Office) download(c *Call, p *Page) {
	path := fill(p.Download, c.Value)
	if q := c.Filled(append([]Field{{Name: "format"}}, p.Filters...)); len(q) > 0 {
		path += "?" + q.Encode()
	}
	err := c.admitted(func() error {
		req, err := c.request(http.MethodGet, path, c.session.Access, http.NoBody)
		if err != nil {
			return err
		}
		if c.changed {
			o.keep(c.w, c.session)
		}
		got := &recorder{header: http.Header{}, pass: c.w}
		if o.deps.API.ServeHTTP(got, req); !got.passes() {
			return c.problemOf(got)
		}
		return nil
	})
	if err != nil {
		o.endOrSay(c, err)
	}
}

// attach answers with a file to save.
func (c *Call) attach(p *Page) {
	name, body := p.Attached(c)
	c.w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	c.w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	_, _ = io.WriteString(c.w, body) // the browser may have left
}

// Acts are the forms of the page that apply to what it shows and that the operator may
// use.
func (v *View) Acts() (forms []*FormView) {
	for _, a := range v.office.listed {
		if a.On != v.page || a.When != nil && !a.When(v.Data) {
			continue
		}
		var values []any
		if a.With != nil {
			values = a.With(v.Data)
		}
		if f := v.Act(a.Path, values...); f != nil {
			forms = append(forms, f)
		}
	}
	return forms
}

// Subject says in words what an alarm, a record or a check is about: "item 7".
func (c *Call) Subject(name string) string {
	kind, no, _ := strings.Cut(name, " ")
	if words, known := c.office.words[kind+" "]; known {
		return words[c.Lang] + no
	}
	return name
}
