package office

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"stampede/platform/base/ids"
)

// failure is a form that was refused, to be shown with the reason.
type failure struct {
	action  string // where it was sent
	form    url.Values
	problem *Problem
	shown   bool // the page has the form, with the reason in it
}

// act sends a form's request to the API, and shows the page of the form again: with
// what was done, or with the refusal and what was typed.
func (o *Office) act(c *Call, a *Act) {
	form := c.r.PostForm //nolint:forbidigo // the form that was received, not a request
	var made map[string]any
	err := o.confirmed(c, a, form)
	if err == nil {
		made, err = c.ask(a, form)
	}
	back := local(form.Get("_back"))
	if err == nil {
		if c.changed {
			o.keep(c.w, c.session)
		}
		then := fill(a.Then, func(name string) string { return cmp.Or(text(made[name]), c.Value(name)) })
		http.Redirect(c.w, c.r, withDone(cmp.Or(then, back), a.Path), http.StatusSeeOther) //nolint:gosec // both are paths of this office
		return
	}
	p, refused := errors.AsType[*Problem](err)
	if !refused || p.Status == http.StatusUnauthorized && p.Code != "wrong-login" && p.Code != "wrong-totp" {
		o.endOrSay(c, err)
		return
	}
	o.again(c, back, &failure{action: c.r.URL.Path, form: form, problem: p})
}

// ask makes a form's request.
func (c *Call) ask(a *Act, form url.Values) (made map[string]any, err error) {
	var body map[string]any
	where := func(string) string { return "" }
	if a.Make != nil {
		body, where, err = a.Make(c, form)
	} else {
		body, err = c.body(a, form)
	}
	if err != nil {
		return nil, err
	}
	method, path, _ := strings.Cut(a.API, " ")
	made, err = c.send(method, fill(path, c.Value), form.Get("_key"), body)
	if p, refused := errors.AsType[*Problem](err); refused {
		for i := range p.Errors {
			p.Errors[i].Message = where(p.Errors[i].Location) + p.Errors[i].Message
		}
	}
	return made, err
}

// again shows the page of a refused form.
func (o *Office) again(c *Call, back string, f *failure) {
	r := c.r.Clone(context.WithValue(c.r.Context(), carriedKey{}, carried{f, c.session, c.changed}))
	r.Method, r.Body = http.MethodGet, http.NoBody
	r.URL, _ = url.Parse(back) // local has parsed it
	if _, pattern := o.mux.Handler(r); pattern == "" {
		o.sayProblem(c, f.problem)
		return
	}
	o.mux.ServeHTTP(c.w, r)
}

// carried is what the page of a refused form is shown with.
type carried struct {
	failed  *failure
	session *session
	changed bool
}

type carriedKey struct{}

// confirmed returns nil if the operator may send a form now: the text to confirm was
// typed, and the password shown if the form needs it.
func (o *Office) confirmed(c *Call, a *Act, form url.Values) error {
	if a.Typed && strings.TrimSpace(form.Get("_typed")) != form.Get("_expected") {
		return c.invalid("_typed", c.T("Type exactly: ", "请准确输入：")+form.Get("_expected"))
	}
	if !a.Again || c.session.fresh(o.now()) {
		return nil
	}
	if form.Get("_password") == "" {
		return c.invalid("_password", c.T("Type your password to confirm that it is you.", "请再次输入密码以确认本人操作。"))
	}
	return c.signInAgain(form)
}

// invalid is a refusal of one field by the office.
func (c *Call) invalid(field, message string) *Problem { return c.Refuse(Flaw{field, message}) }

// Refuse is a refusal by the office, of what the API would not understand.
func (c *Call) Refuse(flaws ...Flaw) *Problem {
	return &Problem{
		Status: http.StatusUnprocessableEntity, Code: "invalid", Title: c.T("Something is missing", "请补充或修改"), Next: c.T("Correct what is marked.", "请修改标出的内容。"),
		Errors: flaws,
	}
}

// withDone adds what was done to a page's address.
func withDone(back, done string) string {
	u, _ := url.Parse(back) // local has parsed it
	q := u.Query()
	q.Set("done", done)
	u.RawQuery = q.Encode()
	return u.RequestURI()
}

// FormView is an act as a template shows it.
type FormView struct {
	*Call
	*Act
	Action   string
	Key      string // the Idempotency-Key
	Back     string
	Fields   []FieldView
	Expected string // what must be typed
	Currency string // of amounts
	Password bool   // it asks for the password
	Open     bool   // it is shown unfolded, as one that was refused is
	Problem  *Problem
	Small    bool   // one of many, in a table
	Look     string // the address of the page to look at before
}

// Act returns a form for a template, nil if the operator may not use it. The page's
// path gives the placeholders unless values, a list of names and texts, does. A value
// of a field's name is the text it begins with, "typed" what must be typed to confirm,
// "currency" that of amounts; "_open" shows the form unfolded, "small" a small button.
// "of" is a document of the API whose members are the values that are not given.
func (c *Call) Act(path string, values ...any) *FormView {
	a := c.office.acts[path]
	if a == nil || !c.Who.Role.May(a.Role) {
		return nil
	}
	given, of := map[string]string{}, map[string]any(nil)
	for i := 0; i+1 < len(values); i += 2 {
		if doc, is := values[i+1].(map[string]any); is && values[i] == "of" {
			of = doc
			continue
		}
		given[text(values[i])] = text(values[i+1])
	}
	f := &FormView{
		Call: c, Act: a, Back: c.with("", ""), Expected: given["typed"], Currency: cmp.Or(given["currency"], currencyOf(of)),
		Action: fill(path, func(name string) string { return cmp.Or(given[name], text(of[name]), c.Value(name)) }),
		Key:    ids.New().String(), Password: a.Again && !c.session.fresh(c.office.now()), Small: given["small"] != "", Open: given["_open"] != "",
	}
	f.Look = fill(a.Before.Path, func(name string) string { return cmp.Or(given[name], text(of[name]), c.Value(name)) })
	if c.failed != nil && c.failed.action == f.Action {
		f.Open, f.Problem, c.failed.shown = true, c.failed.problem, true
		if c.failed.problem.Status >= http.StatusInternalServerError {
			f.Key = cmp.Or(c.failed.form.Get("_key"), f.Key) // it may have been done
		}
	}
	for i := range a.Fields {
		begins, is := given[a.Fields[i].Name]
		if !is {
			begins = c.shown(&a.Fields[i], of, f.Currency)
		}
		v := FieldView{Field: a.Fields[i], c: c, Text: begins, Currency: f.Currency, ID: strings.ReplaceAll(f.Action[1:], "/", "-") + "-" + a.Fields[i].Name}
		if v.Kind == Moment && !v.Hidden {
			v.Text = c.ForField(v.Text)
		}
		if f.Problem != nil {
			v.Text, v.Flaw = c.failed.form.Get(v.Name), f.Problem.of(v.Name)
		}
		f.Fields = append(f.Fields, v)
	}
	return f
}

// ButtonText is what its button says.
func (f *FormView) ButtonText() string { return cmp.Or(f.In(f.Button), f.In(f.Title)) }

// Upload reports whether it sends a file.
func (f *FormView) Upload() bool {
	return slices.ContainsFunc(f.Fields, func(v FieldView) bool { return v.Kind == File })
}

// OneClick reports whether the form is a mere button.
func (f *FormView) OneClick() bool {
	return len(f.Fields) == 0 && f.Warning == Text{} && !f.Typed && !f.Password && !f.Open
}

// PasswordFlaw is what is wrong with the password.
func (f *FormView) PasswordFlaw() string { return f.Problem.of("_password") }

// TypedFlaw is what is wrong with the typed text.
func (f *FormView) TypedFlaw() string { return f.Problem.of("_typed") }
