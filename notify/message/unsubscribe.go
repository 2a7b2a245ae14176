package message

import (
	_ "embed" // the page
	"html/template"
	"net/http"

	"stampede/notify/message/internal/messagedb"
	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
)

//go:embed unsubscribe.html
var unsubscribeHTML string

var (
	unsubscribeTemplate = template.Must(template.New("unsubscribe").Parse(unsubscribeHTML))

	unsubscribeTitle = fault.Text{"Unsubscribe", "退订"}
	unsubscribeAsk   = fault.Text{
		"You will get no more reminders before an opening and no more news of returned units. Messages about your orders still come.",
		"退订后不再收到开抢提醒和到货通知；与订单有关的消息仍会发送。",
	}
	unsubscribeDone = fault.Text{"You are unsubscribed. Messages about your orders still come.", "已退订；与订单有关的消息仍会发送。"}
	unsubscribeBad  = fault.Text{"This link is not complete. Copy it in full.", "链接不完整，请完整复制。"}
	unsubscribeAway = fault.Text{"This cannot be done right now. Try again in a minute.", "暂时无法退订，请一分钟后重试。"}
)

// unsubscribePage asks: a program that opens the links of a message must not unsubscribe its reader.
func (s shoppers) unsubscribePage(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.unsubscriber(r.URL.Query().Get("t")); !ok {
		s.showUnsubscribe(w, r, http.StatusNotFound, unsubscribeBad, false)
		return
	}
	s.showUnsubscribe(w, r, http.StatusOK, unsubscribeAsk, true)
}

// unsubscribe ends offers to a user, by the page's button. It needs no login and no cookie, because the link is signed and
// made for its reader.
func (s shoppers) unsubscribe(w http.ResponseWriter, r *http.Request) {
	user, ok := s.unsubscriber(r.URL.Query().Get("t"))
	switch {
	case !ok:
		s.showUnsubscribe(w, r, http.StatusNotFound, unsubscribeBad, false)
		return
	case user == sampleUser:
	default:
		if err := messagedb.New(s.deps.DB).Unsubscribe(r.Context(), user); err != nil {
			s.deps.Log.WarnContext(r.Context(), "user not unsubscribed", "user", user, "error", err)
			s.showUnsubscribe(w, r, http.StatusServiceUnavailable, unsubscribeAway, true)
			return
		}
	}
	s.showUnsubscribe(w, r, http.StatusOK, unsubscribeDone, false)
}

func (s shoppers) showUnsubscribe(w http.ResponseWriter, r *http.Request, status int, says fault.Text, ask bool) {
	lang := httpx.LanguageOf(r.Header.Get("Accept-Language"))
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", httpx.NoStore)
	h.Set("Content-Security-Policy", "default-src 'none'; form-action 'self'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(status)
	_ = unsubscribeTemplate.Execute(w, struct { // the client has gone, if anything
		Lang, Title, Says string
		Ask               bool
	}{languages[lang], unsubscribeTitle[lang], says[lang], ask})
}
