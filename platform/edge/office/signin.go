package office

import (
	"cmp"
	"encoding/base64"
	"errors"
	"html/template"
	"net/http"
	"net/url"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/qrcode"
)

const (
	signInPath = root + "/sign-in"
	factorPath = root + "/second-factor"
	firstPath  = root + "/first-admin"
)

// ownPages registers the pages that belong to no module.
func (o *Office) ownPages() error {
	o.own = map[string]*template.Template{}
	for _, name := range []string{"sign-in.html", "first-admin.html", "second-factor.html", "problem.html", "again.html", "once.html"} {
		page, err := o.parse(files, "templates/"+name)
		if err != nil {
			return err
		}
		o.own[name] = page
	}
	o.mux.HandleFunc("GET "+root+"/static/{name}", o.serveFile)
	o.mux.HandleFunc("GET "+signInPath, func(w http.ResponseWriter, r *http.Request) { o.showSignIn(o.call(w, r), nil) })
	o.mux.HandleFunc("POST "+signInPath, func(w http.ResponseWriter, r *http.Request) { o.signIn(o.call(w, r)) })
	o.mux.HandleFunc("GET "+firstPath, func(w http.ResponseWriter, r *http.Request) { o.showFirst(o.call(w, r), nil) })
	o.mux.HandleFunc("POST "+firstPath, func(w http.ResponseWriter, r *http.Request) { o.makeFirst(o.call(w, r)) })
	o.mux.HandleFunc("POST "+root+"/sign-out", func(w http.ResponseWriter, r *http.Request) { o.signOut(o.call(w, r)) })
	factor := secondFactor{o}
	for pattern, do := range map[string]func(*Call){
		"GET " + factorPath: factor.show, "POST " + factorPath: factor.start,
		"POST " + factorPath + "/confirm": factor.confirm, "POST " + factorPath + "/recovery": factor.renewRecovery,
	} {
		o.mux.HandleFunc(pattern, o.withLogin(do))
	}
	o.mux.HandleFunc("GET "+root+"/{$}", o.signedIn(o.home))
	o.mux.HandleFunc("GET "+root, o.signedIn(o.home))
	o.mux.HandleFunc(root+"/", o.signedIn(func(c *Call) {
		o.sayProblem(c, &Problem{Status: http.StatusNotFound, Code: "not-found", Title: c.T("There is no such page", "页面不存在"), Next: c.T("Choose one of the menu.", "请从菜单中选择。")})
	}))
	return nil
}

// home opens the first page of the menu.
func (o *Office) home(c *Call) {
	for _, e := range c.Menu() {
		http.Redirect(c.w, c.r, e.Path, http.StatusSeeOther)
		return
	}
	o.tellNoStaff(c)
}

// withLogin runs do for a caller with a session, whatever the role.
func (o *Office) withLogin(do func(c *Call)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := o.call(w, r)
		if c.session = o.sessionOf(r); c.session == nil {
			o.askSignIn(c)
			return
		}
		if err := c.renew(); err != nil {
			o.endOrSay(c, err)
			return
		}
		do(c)
	}
}

func (o *Office) showSignIn(c *Call, p *Problem) {
	status := http.StatusOK
	if p != nil {
		status = p.Status
		p.blame()
		if p.Challenge != nil { // the API's words are for programs
			p.Next = c.T("Type your password again; this page proves meanwhile that you are a person.", "请重新输入密码，页面会自动完成人机验证。")
		}
	}
	o.render(c, status, o.own["sign-in.html"], &View{Title: Text{"Sign in", "登录"}, Problem: p, Bare: true, Data: map[string]any{
		"next": local(c.r.FormValue("next")), "phone": c.r.PostFormValue("phone"), "code": c.r.PostFormValue("way") == "code",
	}})
}

// signIn opens a login of the API with the form's phone, and password or code.
func (o *Office) signIn(c *Call) {
	form := c.r.PostFormValue
	path, body := authPath+"/login", map[string]any{"phone": form("phone"), "totp": cmp.Or(form("recovery"), form("totp")), "device": device()}
	if form("way") == "code" {
		path, body["code"] = path+"/sms", form("code")
	} else {
		body["password"] = form("password")
	}
	before := o.sessionOf(c.r)
	if err := c.open(path, body, form("human_check")); err != nil {
		o.pageOr(c, err, o.showSignIn)
		return
	}
	c.end(before)
	o.enter(c, local(form("next")))
}

// pageOr shows a refusal of the API with its page, and any other error on one of its own.
func (o *Office) pageOr(c *Call, err error, page func(c *Call, p *Problem)) {
	if p, refused := errors.AsType[*Problem](err); refused {
		page(c, p)
		return
	}
	o.sayProblem(c, err)
}

// enter begins a session: at a page, or where an admin adds the second factor.
func (o *Office) enter(c *Call, next string) {
	if !c.Who.Role.May(auth.Viewer) {
		if !o.mayAddFactor(c) {
			c.end(c.session)
			o.tellNoStaff(c)
			return
		}
		next = factorPath
	}
	o.keep(c.w, c.session)
	http.Redirect(c.w, c.r, next, http.StatusSeeOther)
}

// mayAddFactor reports whether a caller without a role in its token is an admin, whose
// tokens have the role from the second factor on.
func (o *Office) mayAddFactor(c *Call) bool {
	me, err := c.Get(mePath, nil)
	return err == nil && text(me["role"]) == string(auth.Admin)
}

// about names the field of a refusal that is about one and lists no flaws.
var about = map[string]string{
	"wrong-code": "code", "wrong-totp": "totp", "totp-required": "totp", "phone-taken": "phone", "weak-password": "password", "first-admin-link": "link",
}

// blame makes a refusal about one field a flaw of it.
func (p *Problem) blame() {
	if name, ok := about[p.Code]; ok && len(p.Errors) == 0 {
		p.Errors = []Flaw{{Location: name, Message: p.Title}}
	}
}

func (o *Office) showFirst(c *Call, p *Problem) {
	status := http.StatusOK
	if p != nil {
		status = p.Status
		p.blame()
	}
	o.render(c, status, o.own["first-admin.html"], &View{Title: Text{"Create the first admin", "创建首位管理员"}, Problem: p, Bare: true, Data: map[string]any{
		"link": c.r.FormValue("link"), "phone": c.r.PostFormValue("phone"),
	}})
}

// makeFirst creates the first admin's account with the link's secret.
func (o *Office) makeFirst(c *Call) {
	form := c.r.PostFormValue
	err := c.open(authPath+"/first-admin", map[string]any{"link": form("link"), "phone": form("phone"), "password": form("password"), "device": device()}, "")
	if err != nil {
		o.pageOr(c, err, o.showFirst)
		return
	}
	o.enter(c, root)
}

// device is how an operator's list of logins names the office.
func device() map[string]any { return map[string]any{"kind": "web", "name": "Stampede office"} }

// open opens a login and makes it the call's session.
func (c *Call) open(path string, body map[string]any, human string) error {
	var t tokens
	if err := c.exchange(http.MethodPost, path, "", body, &t, "", "Human-Check", human); err != nil {
		return err
	}
	now := c.office.now()
	s := &session{Phone: text(body["phone"]), Signed: now.Unix()}
	s.take(t, now)
	return c.use(s)
}

// signInAgain checks the password in a form: it opens another login in place of the
// session's.
func (c *Call) signInAgain(form url.Values) error {
	before := c.session
	err := c.open(authPath+"/login", map[string]any{
		"phone": before.Phone, "password": form.Get("_password"), "totp": form.Get("_totp"), "device": device(),
	}, form.Get("human_check"))
	if err == nil {
		c.end(before)
		return nil
	}
	if p, refused := errors.AsType[*Problem](err); refused && len(p.Errors) == 0 {
		p.Errors = append(p.Errors, Flaw{Location: "_password", Message: p.Title})
	}
	return err
}

// end ends a session's login at the server; one that has ended, or a server that is
// away, changes nothing for the browser, whose cookie goes.
func (c *Call) end(s *session) {
	if s == nil {
		return
	}
	err := c.exchange(http.MethodPost, authPath+"/logout", s.Access, nil, nil, "")
	if p, refused := errors.AsType[*Problem](err); refused && p.Status == http.StatusUnauthorized && s.Until <= c.office.now().Unix() {
		var t tokens // its access token has expired, but not the login
		if c.exchange(http.MethodPost, authPath+"/refresh", "", map[string]any{"refresh_token": s.Refresh}, &t, "") == nil {
			_ = c.exchange(http.MethodPost, authPath+"/logout", t.AccessToken, nil, nil, "")
		}
	}
}

func (o *Office) signOut(c *Call) {
	c.end(o.sessionOf(c.r))
	o.keep(c.w, nil)
	http.Redirect(c.w, c.r, signInPath, http.StatusSeeOther)
}

// tellNoStaff refuses a caller without a role.
func (o *Office) tellNoStaff(c *Call) {
	o.keep(c.w, nil)
	c.session, c.changed = nil, false
	o.sayProblem(c, &Problem{
		Status: http.StatusForbidden, Code: "forbidden", Title: c.T("This account is not one of the shop's staff", "该账号不是店铺员工"),
		Next: c.T("Ask an admin for a role, then sign in again.", "请联系管理员授予角色，然后重新登录。"),
	})
}

// secondFactor is the page where an admin adds the second factor.
type secondFactor struct{ *Office }

// show explains the second factor, which an admin's role needs, and says how many
// recovery codes are left of one that is in force.
func (o secondFactor) show(c *Call) {
	me, err := c.Get(mePath, nil)
	if err != nil {
		o.endOrSay(c, err)
		return
	}
	o.page(c, http.StatusOK, me, nil)
}

func (o secondFactor) page(c *Call, status int, data map[string]any, p *Problem) {
	o.render(c, status, o.own["second-factor.html"], &View{Title: Text{"Authenticator app", "动态验证码"}, Data: data, Problem: p, Bare: !c.Who.Role.May(auth.Viewer)})
}

// start shows a new secret as a QR code.
func (o secondFactor) start(c *Call) {
	doc, err := c.send(http.MethodPost, mePath+"/totp", "", map[string]any{"refresh_token": c.session.Refresh})
	if err != nil {
		o.refused(c, nil, err)
		return
	}
	o.page(c, http.StatusOK, map[string]any{"secret": doc["secret"], "url": doc["url"], "picture": pictureOf(text(doc["url"]))}, nil)
}

// confirm puts the secret into force and shows the recovery codes; the next access
// token has the role.
func (o secondFactor) confirm(c *Call) {
	form := c.r.PostFormValue
	doc, err := c.send(http.MethodPost, mePath+"/totp/confirm", "", map[string]any{"code": form("code")})
	if p, refused := errors.AsType[*Problem](err); refused && p.Code == "totp-set" { // a reload of the page with the recovery codes
		o.keep(c.w, c.session)
		http.Redirect(c.w, c.r, factorPath, http.StatusSeeOther)
		return
	}
	if err != nil {
		o.refused(c, map[string]any{"secret": form("secret"), "url": form("url"), "picture": pictureOf(form("url"))}, err)
		return
	}
	if c.refresh() != nil { // the codes cannot be shown again; the next page refreshes the token
		c.session.Until = 0
	}
	o.keep(c.w, c.session)
	o.page(c, http.StatusOK, doc, nil)
}

// renewRecovery replaces the recovery codes and shows the new ones.
func (o secondFactor) renewRecovery(c *Call) {
	form := c.r.PostFormValue
	doc, err := c.send(http.MethodPost, mePath+"/totp/recovery-codes", "", map[string]any{"password": form("password"), "code": form("code")})
	if err != nil {
		o.refused(c, map[string]any{"has_totp": true}, err)
		return
	}
	o.page(c, http.StatusOK, doc, nil)
}

func (o secondFactor) refused(c *Call, data map[string]any, err error) {
	if p, refused := errors.AsType[*Problem](err); refused && p.Status < http.StatusInternalServerError {
		o.page(c, p.Status, data, p)
		return
	}
	o.sayProblem(c, err)
}

// pictureOf is the QR code of a secret's address, "" for one that is none.
func pictureOf(address string) template.URL {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "otpauth" {
		return ""
	}
	png, err := qrcode.PNG(address)
	if err != nil {
		return ""
	}
	return template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(png)) //nolint:gosec // our own picture
}
