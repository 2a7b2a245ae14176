package office

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/idempotency"
)

// failure is a form that was refused, to be shown with the reason.
type failure struct {
	act     *Act
	action  string // where it was sent
	form    url.Values
	problem *Problem
	sameKey bool // the key is still good: this sending or an earlier one may have been done
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
		if a.Shows != "" {
			o.render(c, http.StatusOK, o.own["once.html"], &View{Title: a.Title, Data: map[string]any{"secret": made[a.Shows], "next": withDone(back, a.Path)}})
			return
		}
		if a.Answer != "" {
			o.render(c, http.StatusOK, o.answers[a], &View{Title: a.Title, Data: answered(c, a, made, back)})
			return
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
	o.again(c, back, &failure{act: a, action: c.r.URL.Path, form: form, problem: p, sameKey: p.Code != idempotency.ErrMismatch.Code})
}

// ask makes a form's request.
func (c *Call) ask(a *Act, form url.Values) (made map[string]any, err error) {
	var body map[string]any
	where := func(string) string { return "" }
	method, path, _ := strings.Cut(a.API, " ")
	path = fill(path, c.Value)
	switch {
	case a.Sends != "":
		query := url.Values{}
		for i := range a.Fields {
			if name := a.Fields[i].Name; name != a.Sends && form.Get(name) != "" {
				query.Set(name, form.Get(name))
			}
		}
		err = c.admitted(func() error {
			made = nil
			return c.exchange(method, path+"?"+query.Encode(), c.session.Access, []byte(form.Get(a.Sends)), &made, "")
		})
		return made, err
	case a.Make != nil:
		body, where, err = a.Make(c, form)
	default:
		body, err = c.body(a, form)
	}
	if err != nil {
		return nil, err
	}
	made, err = c.send(method, path, form.Get("_key"), body)
	if p, refused := errors.AsType[*Problem](err); refused {
		for i := range p.Errors {
			p.Errors[i].Message = where(p.Errors[i].Location) + p.Errors[i].Message
		}
	}
	return made, err
}

// answered is what the page of an answer is shown with.
func answered(c *Call, a *Act, made map[string]any, back string) map[string]any {
	data := map[string]any{"answer": made, "next": back}
	if a.Saved != nil {
		name, body := a.Saved(c, made)
		data["file_name"] = name
		data["file"] = template.URL("data:text/csv;charset=utf-8;base64," + base64.StdEncoding.EncodeToString([]byte(body))) //nolint:gosec // base64 of a file to save
	}
	return data
}

// again shows the page of a refused form.
func (o *Office) again(c *Call, back string, f *failure) {
	r := c.r.Clone(context.WithValue(c.r.Context(), carriedKey{}, carried{f, c.session, c.changed}))
	r.Method, r.Body = http.MethodGet, http.NoBody
	r.URL, _ = url.Parse(back) // local has parsed it
	o.mux.ServeHTTP(c.w, r)
}

// kept is a refused form whose page cannot be shown: all that was sent, hidden, with its key, so
// that a second sending has no second effect. A password is typed and a file chosen anew.
func kept(c *Call) *FormView {
	f := &FormView{Call: c, Act: c.failed.act, Action: c.failed.action, Password: asks(c, c.failed.act), Problem: c.failed.problem}
	anew := []string{"_password", "_totp", "human_check"}
	for _, of := range f.Act.Fields {
		if of.Kind == File {
			f.Fields, anew = append(f.Fields, f.field(of, "")), append(anew, of.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.failed.form)) {
		for _, sent := range c.failed.form[name] {
			if name == "_key" && !c.failed.sameKey {
				sent = ids.New().String()
			}
			if !slices.Contains(anew, name) {
				f.Fields = append(f.Fields, FieldView{Field: Field{Name: name, Hidden: true}, Text: sent})
			}
		}
	}
	return f
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
	if !asks(c, a) {
		return nil
	}
	if form.Get("_password") == "" {
		return c.invalid("_password", c.T("Type your password to confirm that it is you.", "请再次输入密码以确认本人操作。"))
	}
	return c.signInAgain(form)
}

// asks reports whether a form needs the password now.
func asks(c *Call, a *Act) bool { return a.Again && !c.session.fresh(c.office.now()) }

// invalid is a refusal of one field by the office.
func (c *Call) invalid(field, message string) *Problem { return c.Refuse(Flaw{field, message}) }

// Refuse is a refusal by the office, of what the API would not understand.
func (c *Call) Refuse(flaws ...Flaw) *Problem {
	return &Problem{
		Status: http.StatusUnprocessableEntity, Code: "invalid", Title: c.T("Check the marked fields", "请检查标出的内容"), Next: c.T("Correct the marked fields.", "请修改标出的内容。"),
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
		Key:    ids.New().String(), Password: asks(c, a), Small: given["small"] != "", Open: given["_open"] != "",
	}
	f.Look = fill(a.Before.Path, func(name string) string { return cmp.Or(given[name], text(of[name]), c.Value(name)) })
	if c.failed != nil && c.failed.action == f.Action {
		f.Open, f.Problem, c.failed.shown = true, c.failed.problem, true
		if f.stale() { // the form can be sent again from here, which the API's advice is not about
			said := *f.Problem
			said.Detail = c.T("Another change was saved while you were typing.", "在您填写期间，已有其他修改保存。")
			said.Next = c.T("Compare with the page in another tab. Saving again replaces the other change by what you typed.",
				"请在新标签页中打开本页核对；如再次保存，您填写的内容将覆盖对方的修改。")
			f.Problem = &said
		}
		if c.failed.sameKey {
			f.Key = cmp.Or(c.failed.form.Get("_key"), f.Key)
		}
	}
	for i := range a.Fields {
		begins, is := given[a.Fields[i].Name]
		if !is {
			begins = c.shown(&a.Fields[i], of)
		}
		f.Fields = append(f.Fields, f.field(a.Fields[i], begins))
	}
	return f
}

// field is a field that begins with a text, or with what was typed before a refusal.
func (f *FormView) field(of Field, begins string) FieldView {
	v := FieldView{Field: of, c: f.Call, Text: begins, Currency: f.Currency, ID: strings.ReplaceAll(f.Action[1:], "/", "-") + "-" + of.Name}
	if v.Kind == Moment && !v.Hidden {
		v.Text = f.ForField(v.Text)
	}
	if f.Problem != nil && (!v.Hidden || !f.stale()) { // a hidden one is the version that the page has now
		v.Text, v.Flaw = f.failed.form.Get(v.Name), f.Problem.of(v.Name)
	}
	return v
}

// stale reports whether the form was refused because of a change in between.
func (f *FormView) stale() bool { return f.Problem != nil && f.Problem.Code == fault.ErrStale.Code }

// Sent is what an input without a Field had before a refusal.
func (f *FormView) Sent(name string) string {
	if f.Problem == nil {
		return ""
	}
	return f.failed.form.Get(name)
}

// Chosen reports whether a box or an option without a Field was chosen before a refusal.
func (f *FormView) Chosen(name string, value any) bool {
	return f.Problem != nil && slices.Contains(f.failed.form[name], text(value))
}

// Rows are the prefixes of a form's rows, such as "sessions[0]": one, or as many as
// were sent before a refusal.
func (f *FormView) Rows(of string) (prefixes []string) {
	if f.Problem != nil {
		prefixes = RowsIn(f.failed.form, of)
	}
	if len(prefixes) == 0 {
		return []string{of + "[0]"}
	}
	return prefixes
}

// Row are the fields of a row.
func (f *FormView) Row(name, prefix string) (fields []FieldView) {
	for _, of := range f.Act.Rows[name] {
		of.Name = prefix + "." + of.Name
		fields = append(fields, f.field(of, ""))
	}
	return fields
}

// RowsIn are the prefixes of the rows in a form. It numbers them from 0 first, as the API
// numbers the members of a list: a row that was removed leaves a gap.
func RowsIn(form url.Values, of string) (prefixes []string) {
	var sent []string
	for name := range form {
		rest, is := strings.CutPrefix(name, of+"[")
		index, _, closed := strings.Cut(rest, "]")
		if prefix := of + "[" + index + "]"; is && closed && isWhole(index) && !slices.Contains(sent, prefix) {
			sent = append(sent, prefix)
		}
	}
	slices.SortFunc(sent, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	for i, was := range sent {
		is := of + "[" + strconv.Itoa(i) + "]"
		prefixes = append(prefixes, is)
		for _, name := range slices.Collect(maps.Keys(form)) {
			if rest, found := strings.CutPrefix(name, was); found && is != was {
				form[is+rest] = form[name]
				delete(form, name)
			}
		}
	}
	return prefixes
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
