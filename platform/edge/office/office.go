// Package office is the back office under /admin: pages that the server renders from
// its own HTTP API. It knows no module. A module describes its pages in a [Section]:
// which documents of the API each reads, with which template it shows them, and which
// forms send which requests.
//
// # Only the API
//
// The office does nothing by itself. A page becomes requests to the router, in process,
// with the operator's access token, language and network address. So authorization,
// validation, the audit log, rate limits and the words of a refusal exist once, and the
// office can do nothing that the API would refuse. The one thing that it adds is that
// some forms ask for the password again (see [Act.Again]).
//
// # Session
//
// A login of the API is kept in one cookie, encrypted under a key derived from the
// signing key, HttpOnly and SameSite=Strict, so that no script reads it and no other
// site uses it. Nothing is stored at the server: with Redis away the office works as
// far as the API does. The access token is refreshed in process, once for all requests
// that need it at the same moment; the API gives two instances that refresh the same
// token within ten seconds the same successor, so that two tabs do not log each other
// out. Requests that change something are also checked by http.CrossOriginProtection.
//
// # Forms
//
// A form carries the Idempotency-Key that was made with it: sending it twice has one
// effect. What the API refuses is shown in the form, with what was typed, the invalid
// fields, and what to do instead. A page shows no form that the operator's role may not
// use; the API refuses it anyway.
//
// No page needs a script. The two that there are focus the search field, confirm, and
// solve the human check of a sign-in.
//
// # Size
//
// The package has more than 2,000 lines because pages, forms and sign-in are all a
// [Call]: who asks, in which language, with which session, and what the API said.
package office

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
)

const (
	// root is where the office is.
	root     = "/admin"
	authPath = "/api/v1/auth"
	mePath   = "/api/v1/me"
)

// Deps are the office's dependencies; all but PublicURL and ShopName are required.
type Deps struct {
	API interface { // the router; Open sets it
		http.Handler
		Receive(w http.ResponseWriter, r *http.Request, most int64, trusted bool) error
	}
	Tokens *auth.Tokens
	// SigningKeys are the process's, the current one first.
	SigningKeys [][]byte
	// Zone is the shop's: times are shown and typed in it.
	Zone *time.Location
	// PublicURL is where browsers reach the server; with https:// the cookies are Secure.
	PublicURL string
	ShopName  string
	Log       *slog.Logger
}

// Office serves the pages. Safe for concurrent use.
type Office struct {
	deps       Deps
	now        func() time.Time
	sealer     sealer
	mux        *http.ServeMux
	guarded    http.Handler // the mux behind the check of a request's origin
	base       *template.Template
	words      map[string]Text
	menu       []Entry
	acts       map[string]*Act               // by path
	answers    map[*Act]*template.Template   // of acts that show one
	listed     []*Act                        // those with a page
	own        map[string]*template.Template // the pages that belong to no module
	refreshing singleflight.Group
	uploads    ratelimit.Places
}

// Open registers an office with the modules' sections on the router, which is the API
// that it speaks.
func Open(rt *httpx.Router, deps Deps, sections ...Section) error {
	deps.API = rt
	o, err := New(deps, sections...)
	if err != nil {
		return err
	}
	o.Routes(rt)
	return nil
}

// New returns an office with the modules' sections, the navigation in their order.
func New(deps Deps, sections ...Section) (*Office, error) {
	base, err := baseTemplates()
	if err != nil {
		return nil, err
	}
	o := &Office{
		deps: deps, now: time.Now, sealer: newSealer(deps.SigningKeys...), mux: http.NewServeMux(), base: base,
		words: map[string]Text{}, acts: map[string]*Act{}, answers: map[*Act]*template.Template{},
	}
	if err := o.ownPages(); err != nil {
		return nil, err
	}
	for _, s := range append([]Section{{Words: roleWords}}, sections...) {
		if err := o.add(s); err != nil {
			return nil, err
		}
	}
	guard := http.NewCrossOriginProtection()
	guard.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := o.call(w, r)
		o.sayProblem(c, &Problem{
			Status: http.StatusForbidden, Code: "forbidden", Title: c.T("This request came from another site", "请求来自其他网站，已拒绝"),
			Next: c.T("Open the page in the back office and send the form there.", "请在管理后台中打开页面后再提交。"),
		})
	}))
	o.guarded = guard.Handler(http.HandlerFunc(o.received))
	return o, nil
}

// add registers a section.
func (o *Office) add(s Section) error {
	for word, text := range s.Words {
		if known, twice := o.words[word]; twice && known != text {
			return fmt.Errorf("office: the word %q has two texts", word)
		}
		o.words[word] = text
	}
	signedIn := func(role auth.Role, do func(c *Call)) http.HandlerFunc {
		return o.signedIn(func(c *Call) {
			if c.own = s.Own; !c.Who.Role.May(role) { // before a file is read, which costs more than a refusal of the API
				o.sayProblem(c, c.forbidden(role))
				return
			}
			do(c)
		})
	}
	o.menu = append(o.menu, s.Menu...)
	for i := range s.Pages {
		p := &s.Pages[i]
		if p.Attached != nil {
			o.mux.HandleFunc("GET "+p.Path, signedIn(p.Role, func(c *Call) { c.attach(p) }))
			continue
		}
		if p.Download != "" {
			o.mux.HandleFunc("GET "+p.Path, signedIn(p.Role, func(c *Call) { o.download(c, p) }))
			continue
		}
		shown, err := o.parse(s.Files, p.Template)
		if err != nil {
			return err
		}
		o.mux.HandleFunc("GET "+p.Path, signedIn(p.Role, func(c *Call) { o.show(c, p, shown) }))
	}
	for i := range s.Acts {
		a := &s.Acts[i]
		if method, path, ok := strings.Cut(a.API, " "); !ok || method == "" || !strings.HasPrefix(path, "/api/") {
			return fmt.Errorf("office: the act %s makes no request: %q", a.Path, a.API)
		}
		if a.Answer != "" {
			shown, err := o.parse(s.Files, a.Answer)
			if err != nil {
				return err
			}
			o.answers[a] = shown
		}
		o.acts[a.Path] = a
		if a.On != "" {
			o.listed = append(o.listed, a)
		}
		o.mux.HandleFunc("POST "+a.Path, signedIn(a.Role, func(c *Call) { o.act(c, a) }))
	}
	return nil
}

// Routes registers the office on the router. Its requests take no place among those in
// flight, because the requests that they make to the API do.
func (o *Office) Routes(rt *httpx.Router) {
	rt.Handle(httpx.Static, http.MethodGet, root+"/static/{name}", o.ServeHTTP)
	for _, pattern := range []string{root, root + "/*"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			rt.Handle(httpx.Relayed, method, pattern, o.ServeHTTP)
		}
	}
}

// policy lets a page load and send nothing but the office's own files and forms.
// Pictures of goods lie elsewhere, and QR codes are part of their page.
const policy = "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self' https: data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP answers a request below /admin.
func (o *Office) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Cache-Control", "no-store")
	// Without a referrer a browser states its forms' origin as null, and over plain http it
	// states nothing else that tells whose they are.
	h.Set("Referrer-Policy", "same-origin")
	if err := httpx.OverRate(r.Context()); err != nil {
		o.sayOverRate(o.call(w, r), err)
		return
	}
	if tag := r.URL.Query().Get("language"); tag == "en" || tag == "zh" {
		o.switchLanguage(w, r, tag)
		return
	}
	o.guarded.ServeHTTP(w, r)
}

// received reads a form before its page or act begins.
func (o *Office) received(w http.ResponseWriter, r *http.Request) {
	c := o.call(w, r)
	switch {
	case r.Method != http.MethodPost:
	case isUpload(r):
		if !o.mayUpload(c) {
			return
		}
		if !o.uploads.Enter(netip.Addr{}, 0, mostUploads) {
			o.sayProblem(c, c.overloaded())
			return
		}
		defer o.uploads.Leave(netip.Addr{})
		connection := http.NewResponseController(w)
		_ = connection.SetReadDeadline(time.Now().Add(fileTimeout)) // a recorder in a test has no deadlines
		if err := receiveFile(w, c.r); err != nil {
			o.sayUnread(c)
			return
		}
		_ = connection.SetReadDeadline(time.Time{}) // it would cancel the work otherwise
	default:
		most, trusted := int64(maxOfStranger), false
		if s := o.sessionOf(r); s != nil {
			who, err := o.deps.Tokens.Admit(r.Context(), s.Access)
			most, trusted = maxForm, err == nil && who.Role.May(auth.Viewer)
			c.session, c.Who = s, who // a refusal leads back to the form, not to the sign-in
		}
		if err := o.deps.API.Receive(w, r, most, trusted); err != nil {
			o.sayProblem(c, c.overloaded())
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, most)
		if err := r.ParseForm(); err != nil && most == maxOfStranger {
			http.Redirect(w, r, signInPath, http.StatusSeeOther)
			return
		} else if err != nil {
			o.sayUnread(c)
			return
		}
	}
	o.mux.ServeHTTP(w, c.r)
}

const (
	// maxForm fits the longest text that the API takes in a form: 10,000 characters, each
	// of nine bytes as browsers send them. A stranger needs a phone, a password and the
	// token of a human check, which has 2 KiB at most.
	maxForm       = 128 << 10
	maxOfStranger = 4 << 10
	// maxUpload fits a sale of a thousand items with their texts, the most that the API
	// takes. mostUploads at the same time are 32 MiB.
	maxUpload   = 4 << 20
	mostUploads = 8
	// fileTimeout bounds the sending of a file over a telephone's network.
	fileTimeout = 30 * time.Second
)

// mayUpload reports whether the client is an operator whose login has not ended: others
// must not fill the memory. It has answered if not. Only acts of operators take a file.
func (o *Office) mayUpload(c *Call) bool {
	if c.session = o.sessionOf(c.r); c.session == nil {
		http.Redirect(c.w, c.r, signInPath, http.StatusSeeOther)
		return false
	}
	var err error
	if c.Who, err = o.deps.Tokens.Admit(c.r.Context(), c.session.Access); err != nil {
		err = c.refresh()
	}
	switch p, refused := errors.AsType[*Problem](err); {
	case refused && p.Status == http.StatusUnauthorized:
		o.keep(c.w, nil)
		http.Redirect(c.w, c.r, signInPath, http.StatusSeeOther)
	case err != nil:
		o.sayProblem(c, err)
	case !c.Who.Role.May(auth.Operator):
		o.sayProblem(c, c.forbidden(auth.Operator))
	default:
		c.r = c.r.WithContext(context.WithValue(c.r.Context(), carriedKey{}, carried{session: c.session, changed: c.changed}))
		return true
	}
	return false
}

// overloaded refuses a form before it is read.
func (c *Call) overloaded() *Problem {
	c.w.Header().Set("Retry-After", "1")
	c.w.Header().Set("Connection", "close") // net/http would read the rest of the form
	return &Problem{
		Status: http.StatusServiceUnavailable, Code: "overloaded", Title: c.T("Too many forms are being sent at once", "同时提交的表单过多"),
		Next: c.T("Go back and send it again in a moment.", "请返回，稍后重新提交。"),
	}
}

// sayOverRate refuses a request over its rate: an operator's on a page, a stranger's with
// the problem alone, because a page costs as much as what the rate protects.
func (o *Office) sayOverRate(c *Call, err error) {
	if c.session = o.sessionOf(c.r); c.session == nil {
		httpx.WriteProblem(c.w, c.r, err)
		return
	}
	c.r.Header.Set("Accept-Language", languageTags[c.Lang])
	got := &recorder{header: http.Header{}}
	httpx.WriteProblem(got, c.r, err)
	c.w.Header().Set("Retry-After", got.header.Get("Retry-After"))
	o.sayProblem(c, c.problemOf(got))
}

func (o *Office) sayUnread(c *Call) {
	o.sayProblem(c, &Problem{
		Status: http.StatusBadRequest, Code: "bad-request", Title: c.T("The form could not be read", "表单无法读取"),
		Next: c.T("Go back, shorten the text and send it again.", "请返回，缩短内容后重新提交。"),
	})
}

// isUpload reports whether a form has a file.
func isUpload(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "multipart/form-data"
}

// receiveFile reads a form with a file, whose content becomes the text of its field.
func receiveFile(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxUpload)
	if err := r.ParseMultipartForm(maxUpload); err != nil { //nolint:gosec // bounded right above; all of it stays in memory
		return err
	}
	for name, sent := range r.MultipartForm.File {
		f, err := sent[0].Open()
		if err != nil {
			return err
		}
		content, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		r.PostForm.Set(name, string(content)) //nolint:forbidigo // the form that was received, not a request
	}
	return nil
}

func (o *Office) overTLS() bool { return strings.HasPrefix(o.deps.PublicURL, "https://") }

// call returns the call of a request without a session.
func (o *Office) call(w http.ResponseWriter, r *http.Request) *Call {
	return &Call{Words: Words{Lang: languageOf(r), office: o}, r: r, w: w}
}

// signedIn runs do for an operator with a session whose access token is valid, and
// shows the sign-in page to others.
func (o *Office) signedIn(do func(c *Call)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := o.call(w, r)
		if from, again := r.Context().Value(carriedKey{}).(carried); again {
			c.failed, c.session, c.changed = from.failed, from.session, from.changed
		} else {
			c.session = o.sessionOf(r)
		}
		if c.session == nil {
			o.askSignIn(c)
			return
		}
		if err := c.renew(); err != nil {
			o.endOrSay(c, err)
			return
		}
		if !c.Who.Role.May(auth.Viewer) {
			o.enter(c, root)
			return
		}
		do(c)
	}
}

// renew verifies the access token, and refreshes one that ends soon.
func (c *Call) renew() error {
	if c.office.now().Add(refreshEarly).Unix() < c.session.Until {
		who, err := c.office.deps.Tokens.Verify(c.session.Access)
		if err == nil {
			c.Who = who
			return nil
		}
	}
	c.refreshed = true
	return c.refresh()
}

// endOrSay ends a session whose login has ended, and shows any other error.
func (o *Office) endOrSay(c *Call, err error) {
	if p, refused := errors.AsType[*Problem](err); refused && p.Status == http.StatusUnauthorized {
		o.keep(c.w, nil)
		c.session = nil
		o.askSignIn(c)
		return
	}
	o.sayProblem(c, err)
}

// askSignIn sends the browser to the sign-in page, and from there back. A browser that
// follows a link of another site sends no SameSite=Strict cookie: it is made to ask
// again from this site.
func (o *Office) askSignIn(c *Call) {
	back := c.r.URL.RequestURI()
	if c.r.Method != http.MethodGet {
		back = local(c.r.PostFormValue("_back"))
	} else if c.r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		c.w.Header().Set("Refresh", "0; url="+back)
		o.render(c, http.StatusOK, o.own["again.html"], &View{Title: Text{"Back office", "管理后台"}})
		return
	}
	http.Redirect(c.w, c.r, signInPath+"?next="+url.QueryEscape(back), http.StatusSeeOther)
}

// local returns a path of the office, its root for anything else: a link with a next
// page must not lead to another site.
func local(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.Host != "" || u.Scheme != "" || u.Path != root && !strings.HasPrefix(u.Path, root+"/") || strings.Contains(path, `\`) {
		return root
	}
	return u.RequestURI()
}

// languageCookie keeps the chosen language, because a browser's is often the system's.
const languageCookie = "stampede_language"

var languageTags = [...]string{httpx.English: "en", httpx.Chinese: "zh"}

func languageOf(r *http.Request) httpx.Language {
	chosen := ""
	if c, err := r.Cookie(languageCookie); err == nil {
		chosen = c.Value
	}
	return httpx.LanguageOf(cmp.Or(chosen, r.Header.Get("Accept-Language")))
}

func (o *Office) switchLanguage(w http.ResponseWriter, r *http.Request, tag string) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure wherever browsers use https
		Name: languageCookie, Value: tag, Path: root, MaxAge: int((365 * 24 * time.Hour).Seconds()), HttpOnly: true, Secure: o.overTLS(), SameSite: http.SameSiteLaxMode,
	})
	q := r.URL.Query()
	q.Del("language")
	back := *r.URL
	back.RawQuery = q.Encode()
	http.Redirect(w, r, local(back.RequestURI()), http.StatusSeeOther) //nolint:gosec // local is a path of this office
}

// FirstAdminPath is the page that a secret of the accounts opens, for the shop's first
// admin.
func FirstAdminPath(secret string) string { return firstPath + "?link=" + url.QueryEscape(secret) }

// roleWords are the roles as operators read them.
var roleWords = map[string]Text{
	string(auth.Shopper): {"Shopper", "顾客"}, string(auth.Viewer): {"Viewer", "只读"},
	string(auth.Operator): {"Operator", "运营"}, string(auth.Admin): {"Admin", "管理员"},
}
