package humancheck

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"sync"
	"time"

	"stampede/platform/workshop/cloudtest"
)

// captcha is a stand-in of a verifier with its widget.
type captcha interface {
	http.Handler
	Solve(w *VerifierWidget, denied bool) string // what the widget gives, as the token carries it
	Be(t trouble)
	Asked() int
	Forget() // which tokens were used
}

// The shop's account at the stand-ins.
const (
	testApp    = "199999164"
	testSecret = "0x4AAA"
	testKeyID  = "AKIDz8krbsJ5yKBZQpn74WFkmLPx3EXAMPLE"
	testKey2   = "Gu5t9xGARNpq86cd98joQYCN3EXAMPLE" //nolint:gosec // of nobody
)

// fakeCloud answers GeeTest's, Tencent Cloud's or Aliyun's API as documented. Safe for
// concurrent use.
type fakeCloud struct {
	kind VerifierKind
	api  cloudtest.API

	mu      sync.Mutex
	solved  map[string]*fakeSolved // by the ticket, or whatever the kind calls it
	trouble trouble
	asked   int
	clients []string
}

type fakeSolved struct {
	second       string // what has to come with it
	denied, used bool
}

func newFakeCloud(kind VerifierKind, now func() time.Time) *fakeCloud {
	f := &fakeCloud{kind: kind, solved: map[string]*fakeSolved{}}
	f.api.KeyID, f.api.Secret, f.api.Now = testKeyID, testKey2, now
	f.api.Service, f.api.Action, f.api.Version = "captcha", "DescribeCaptchaResult", "2019-07-22"
	if kind == Aliyun {
		f.api.Action, f.api.Version = "VerifyIntelligentCaptcha", "2023-03-05"
	}
	return f
}

// pack writes what a widget gave as a token carries it.
func pack(w *VerifierWidget, answer any) string {
	raw, err := json.Marshal(answer)
	if err != nil {
		panic(err)
	}
	return w.Data + "." + answerEncoding.EncodeToString(raw)
}

func (f *fakeCloud) Solve(w *VerifierWidget, denied bool) string {
	one, two := rand.Text(), rand.Text()
	f.mu.Lock()
	f.solved[one] = &fakeSolved{second: two, denied: denied}
	f.mu.Unlock()
	switch f.kind {
	case GeeTest:
		return pack(w, geetestAnswer{Lot: one, Output: "output+/=", Pass: two, At: strconv.FormatInt(f.api.Now().Unix(), 10)})
	case Tencent:
		return pack(w, tencentAnswer{Ticket: one, Rand: two})
	default:
		return pack(w, aliyunAnswer{Param: one})
	}
}

func (f *fakeCloud) Be(t trouble) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trouble = t
}

func (f *fakeCloud) Asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

func (f *fakeCloud) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.solved {
		s.used = false
	}
}

// take uses a token up: "ok", "used", "denied", "wrong" or "unknown".
func (f *fakeCloud) take(one, two string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.solved[one]
	switch {
	case s == nil:
		return "unknown"
	case two != s.second && f.kind != Aliyun:
		return "wrong"
	case s.used:
		return "used"
	}
	if s.used = true; s.denied {
		return "denied"
	}
	return "ok"
}

func (f *fakeCloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	f.mu.Lock()
	f.asked++
	now := f.trouble
	f.mu.Unlock()
	switch {
	case err != nil || r.Method != http.MethodPost, now == broken:
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"status":"success","result":"success","Code":"Success","Result":{"VerifyResult":true},"Response":{"CaptchaCode":1}}`) // which callers must not trust
		return
	case now == hangs:
		<-r.Context().Done()
		return
	case now == garbage:
		_, _ = io.WriteString(w, "<html>down for maintenance</html>")
		return
	}
	status, doc := http.StatusOK, any(nil)
	switch f.kind {
	case GeeTest:
		doc = f.geetest(r, body, now == spent)
	case Tencent:
		doc = f.tencent(r, body, now == spent)
	default:
		status, doc = f.aliyun(r, body, now == spent)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(doc) // an error means that the client has left
}

type object = map[string]any

var unixSeconds = regexp.MustCompile(`^[0-9]+$`)

func (f *fakeCloud) geetest(r *http.Request, body []byte, paused bool) object {
	fails := func(code, text string) object {
		return object{"status": "error", "code": code, "msg": text, "desc": object{"type": "defined error"}}
	}
	form, err := url.ParseQuery(string(body))
	id := r.URL.Query().Get("captcha_id")
	sign := hmac.New(sha256.New, []byte(testSecret))
	sign.Write([]byte(form.Get("lot_number")))
	switch {
	case err != nil || r.Header.Get("Content-Type") != formType || form.Get("captcha_output") != "output+/=":
		return fails("-50002", "param decrypt error")
	case id == "":
		return fails("-50101", "not captcha_id")
	case id != testApp:
		return fails("-50103", "not captcha")
	case paused:
		return fails("-50105", "captcha_id paused")
	case !unixSeconds.MatchString(form.Get("gen_time")):
		return fails("-50005", "illegal gen_time")
	case form.Get("lot_number") == "":
		return fails("-50302", "not lot_number")
	}
	result := func(result, reason string) object {
		return object{"status": "success", "result": result, "reason": reason, "captcha_args": object{"lot_number": form.Get("lot_number"), "used_type": "slide"}}
	}
	if form.Get("sign_token") != hex.EncodeToString(sign.Sum(nil)) {
		return result("fail", "sign_token error")
	}
	switch f.take(form.Get("lot_number"), form.Get("pass_token")) {
	case "ok":
		return result("success", "")
	case "used":
		return result("fail", "pass_token expire")
	case "unknown":
		return fails("-50301", "not proof")
	default:
		return result("fail", "pass_token error")
	}
}

func (f *fakeCloud) tencent(r *http.Request, body []byte, unpaid bool) object {
	fails := func(code string) object {
		return object{"Response": object{"Error": object{"Code": code, "Message": "about it"}, "RequestId": "r"}}
	}
	if code := f.api.Tencent(r, body); code != "" {
		return fails(code)
	}
	var q struct {
		CaptchaType, CaptchaAppId             int //nolint:revive // as Tencent Cloud spells it
		Ticket, Randstr, UserIP, AppSecretKey string
	}
	switch err := json.Unmarshal(body, &q); {
	case unpaid:
		return fails("UnauthorizedOperation.Unauthorized")
	case err != nil || q.CaptchaType != 9 || q.Ticket == "" || q.Randstr == "" || q.UserIP == "":
		return fails("MissingParameter")
	}
	f.mu.Lock()
	f.clients = append(f.clients, q.UserIP)
	f.mu.Unlock()
	says := func(code int, text string) object {
		return object{"Response": object{"CaptchaCode": code, "CaptchaMsg": text, "EvilLevel": 0, "RequestId": "r"}}
	}
	if strconv.Itoa(q.CaptchaAppId) != testApp || q.AppSecretKey != testSecret {
		return says(100, "appid-secretkey-ticket mismatch")
	}
	switch f.take(q.Ticket, q.Randstr) {
	case "ok":
		return says(1, "OK")
	case "used":
		return says(9, "ticket reused")
	case "wrong":
		return says(7, "captcha no match")
	case "unknown":
		return says(15, "decrypt fail")
	default:
		return says(21, "diff")
	}
}

func (f *fakeCloud) aliyun(r *http.Request, body []byte, unpaid bool) (int, object) {
	if status, code := f.api.Aliyun(r, body); code != "" {
		return status, object{"Code": code, "Message": "about it", "RequestId": "r"}
	}
	form, err := url.ParseQuery(string(body))
	switch {
	case unpaid:
		return http.StatusForbidden, object{"Code": "Forbidden.AccountAccessDenied", "Message": "overdue", "RequestId": "r"}
	case err != nil || form.Get("CaptchaVerifyParam") == "":
		return http.StatusBadRequest, object{"Code": "MissingParameter", "Message": "", "RequestId": "r"}
	}
	code := map[string]string{"ok": "T001", "used": "F008", "unknown": "F003", "denied": "F001"}[f.take(form.Get("CaptchaVerifyParam"), "")]
	if form.Get("SceneId") != testApp {
		code = "F005"
	}
	return http.StatusOK, object{
		"Code": "Success", "Message": "success", "Success": true, "RequestId": "r", "Result": object{"VerifyResult": code == "T001", "VerifyCode": code},
	}
}
