package contract

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// operates uses the operator's routes beside sales.
func (s *story) operates(t *testing.T) {
	t.Helper()
	entry := s.post(t, "admin/blacklist", s.operator, `{"kind":"address","value":"203.0.113.0/24","reason":"A farm"}`, 201)
	s.get(t, "admin/blacklist", s.operator, 200)
	s.ask(t, http.MethodDelete, "admin/blacklist/"+text(entry, "id"), s.operator, "", 200)
	s.post(t, "admin/blacklist", s.operator, `{"kind":"face","value":"x","reason":"x"}`, 422)
	const rule = `{"kind":"unpaid_holds","threshold":3,"window_seconds":3600,"action":"none"}`
	made := s.post(t, "admin/risk/rules", s.operator, rule, 201)
	s.post(t, "admin/risk/rules/dry-run", s.operator, rule, 200)
	s.ask(t, http.MethodPut, "admin/risk/rules/"+text(made, "id"), s.operator, rule, 200)
	s.get(t, "admin/risk/rules", s.operator, 200)
	s.ask(t, http.MethodDelete, "admin/risk/rules/"+text(made, "id"), s.operator, "", 200)

	var alarm int64
	letters := []string{ids.New().String(), ids.New().String()}
	err := s.db.QueryRow(t.Context(), `INSERT INTO platform.alarms (code, subject, severity, next_action) VALUES ('dead-letter', 'contract', 'warning', 'Check it.') RETURNING id`).Scan(&alarm)
	for _, id := range letters {
		if err == nil {
			_, err = s.db.Exec(t.Context(), `INSERT INTO platform.dead_letters (id, consumer, subject, message_id, payload, error, attempts)
				VALUES ($1::uuid, 'contract', 'contract.made', $1::text, '{}', 'made by a test', 3)`, id)
		}
	}
	require.NoError(t, err)
	if _, err := s.db.Exec(t.Context(), `INSERT INTO risk.decisions (at, user_id, item_id, activity_id, order_no, rule_id, rule, inputs, result)
		VALUES (now(), 3001, 1, 1, gen_random_uuid(), 0, '{}', '{}', 'refused')`); err != nil {
		t.Fatal(err)
	}
	s.get(t, "admin/risk/decisions", s.operator, 200)
	s.get(t, "admin/alarms", s.operator, 200)
	s.post(t, fmt.Sprintf("admin/alarms/%d/acknowledge", alarm), s.operator, `{"name":"Li Wei"}`, 200)
	s.get(t, "admin/dead-letters", s.operator, 200)
	s.get(t, "admin/dead-letters/"+letters[0], s.operator, 200)
	s.post(t, "admin/dead-letters/"+letters[0]+"/redrive", s.operator, "", 200)
	s.get(t, "admin/reconcile", s.operator, 200)
	s.post(t, "admin/reconcile", s.operator, `{"dry_run":true}`, 200)
	s.post(t, "admin/dead-letters/redrive", s.operator, `{"consumer":"contract"}`, 200)
	s.post(t, "admin/alarms/test", s.operator, "", 200)
	s.get(t, "admin/backups", s.operator, 200)
	s.get(t, "admin/activities/"+s.activity+"/settlements", s.operator, 200)
}

// tellsShoppers decides about messages to shoppers, and sends two again that were dead.
func (s *story) tellsShoppers(t *testing.T) {
	t.Helper()
	shopper := shop.Mint(t, 3001, auth.Shopper)
	s.get(t, "me/messages", shopper, 200)
	s.ask(t, http.MethodPut, "me/messages", shopper, `{"offers":false,"language":"en"}`, 200)
	s.ask(t, http.MethodPut, "me/messages", shopper, `{"offers":false,"language":"fr"}`, 422)
	back := "items/" + s.item + "/units-back"
	s.ask(t, http.MethodPut, back, shopper, "", 200)
	s.get(t, back, shopper, 200)
	s.ask(t, http.MethodDelete, back, shopper, "", 204)
	s.ask(t, http.MethodPut, "items/999999/units-back", shopper, "", 404)
	s.get(t, "me/points", shopper, 200)
	s.get(t, "admin/users/3001/points", s.operator, 200)

	const rules, won = "admin/shopper-message-rules", "admin/shopper-message-texts/won/sms/en"
	s.get(t, rules, s.operator, 200)
	s.ask(t, http.MethodPut, rules, s.admin, `{"language":"auto","budget":1000,"budget_per":"day","quiet_from":"22:00","quiet_until":"08:00"}`, 200)
	s.ask(t, http.MethodPut, rules+"/won", s.admin, `{"on":true}`, 200)
	s.ask(t, http.MethodPut, rules+"/won", s.operator, `{"on":true}`, 403)
	s.get(t, "admin/shopper-message-texts", s.operator, 200)
	s.get(t, won, s.operator, 200)
	s.post(t, won+"/preview", s.operator, `{"body":"Yours: {item}"}`, 200)
	s.post(t, won+"/preview", s.operator, `{"body":"Yours: {thing}"}`, 422)
	s.ask(t, http.MethodPut, won, s.admin, `{"body":"Yours: {item}"}`, 200)
	for _, about := range []string{"one", "two"} {
		pgtest.Exec(t, s.db, `INSERT INTO notify.messages (id, kind, about, user_id, order_no, offer, facts, state, next_try, expires_at)
			VALUES ($1::uuid, 'paid', $2::text, 3001, '00000000-0000-0000-0000-000000000001', false, '{}', 'dead', now(), now() + interval '1 hour')`, ids.New().String(), about)
	}
	dead, _ := s.get(t, "admin/shopper-messages?state=dead", s.operator, 200)["data"].([]any)
	require.Equal(t, "dead messages", len(dead) >= 2, true)
	s.post(t, "admin/shopper-messages/"+text(dead[0].(map[string]any), "id")+"/redrive", s.operator, "", 200)
	s.post(t, "admin/shopper-messages/redrive", s.operator, `{"kind":"paid"}`, 200)
	s.get(t, "admin/shopper-messages/days", s.operator, 200)
}

// tellsSystems gives the shop's own systems keys, webhooks and events.
func (s *story) tellsSystems(t *testing.T) {
	t.Helper()
	made := s.post(t, "admin/api-keys", s.admin, `{"name":"ERP","scopes":["events:read","users:exchange"]}`, 201)
	key, keys := text(made, "key"), "admin/api-keys/"+text(made, "id")
	events := s.get(t, "events?limit=1&type=order.paid", key, 200)["data"].([]any)
	s.get(t, "events?after=x", key, 422)
	s.post(t, "auth/exchange-user", key, `{"subject":"u-1","nickname":"Li"}`, 200)
	s.post(t, "auth/exchange", "", `{"token":"x"}`, 404)
	s.ask(t, http.MethodPost, "auth/backchannel-logout", "", "logout_token=x", 404, "Content-Type", "application/x-www-form-urlencoded")
	s.get(t, "admin/orders", key, 403)
	s.get(t, "admin/api-keys", s.admin, 200)
	s.ask(t, http.MethodPatch, keys, s.admin, `{"scopes":["events:read"]}`, 200)
	s.post(t, keys+"/revoke", s.admin, "", 200)
	s.get(t, "events", key, 401)

	hook := s.post(t, "admin/webhooks", s.admin, `{"url":"https://shop.invalid/events"}`, 201)
	path := "admin/webhooks/" + text(hook, "id")
	s.post(t, "admin/webhooks", s.admin, `{"url":"http://127.0.0.1/"}`, 422)
	s.ask(t, http.MethodPatch, path, s.admin, `{"types":["order.paid"]}`, 200)
	s.post(t, path+"/secret", s.admin, "", 200)
	s.post(t, path+"/test", s.operator, "", 200)
	s.post(t, path+"/send", s.operator, `{"event_id":"`+text(events[0].(map[string]any), "id")+`"}`, 200)
	s.get(t, path, s.operator, 200)
	s.get(t, "admin/webhooks", s.operator, 200)
	s.get(t, path+"/attempts", s.operator, 200)
	s.ask(t, http.MethodDelete, path, s.admin, "", 200)
}

// knowsPeople registers a shopper, logs in by every method and erases the account.
func (s *story) knowsPeople(t *testing.T) {
	t.Helper()
	const phone, password = "13800138555", "a-password-of-the-story"
	_, link, _ := strings.Cut(s.Out.String(), "/admin/first-admin?link=")
	link, _, _ = strings.Cut(link, " ")
	for _, try := range []struct {
		link string
		want int
	}{{"made-up", 403}, {link, 201}, {link, 403}} { // the second time there is an admin
		s.post(t, "auth/first-admin", "", fmt.Sprintf(`{"link":%q,"phone":"13800138550","password":%q}`, try.link, password), try.want)
	}
	code := func(purpose string) string {
		t.Helper()
		s.post(t, "auth/sms-codes", "", fmt.Sprintf(`{"phone":%q,"purpose":%q}`, phone, purpose), 202)
		got, err := s.phones.Code()
		require.NoError(t, err)
		return got
	}
	post := func(path, token string, want int, body string, values ...any) map[string]any {
		t.Helper()
		return s.post(t, path, token, fmt.Sprintf(body, values...), want)
	}
	post("auth/register", "", 401, `{"phone":%q,"code":"000000","password":%q}`, phone, password)
	post("auth/register", "", 201, `{"phone":%q,"code":%q,"password":%q}`, phone, code("register"), password)
	post("auth/login/sms", "", 200, `{"phone":%q,"code":%q}`, phone, code("login"))
	post("auth/password/reset", "", 204, `{"phone":%q,"code":%q,"password":%q}`, phone, code("reset"), password+"2")
	post("auth/login", "", 401, `{"phone":%q,"password":%q}`, phone, password)
	post("auth/login", "", 422, `{"phone":%q,"password":12345}`, phone)
	login := func() map[string]any {
		t.Helper()
		return post("auth/login", "", 200, `{"phone":%q,"password":%q}`, phone, password+"2")
	}
	mine, other := login(), login()
	mine = post("auth/refresh", "", 200, `{"refresh_token":%q}`, text(mine, "refresh_token"))
	post("auth/refresh", "", 401, `{"refresh_token":"made-up"}`)
	me := text(mine, "access_token")
	account := s.get(t, "me", me, 200)
	s.get(t, "me/notices", me, 200)
	logins, _ := s.get(t, "me/logins", me, 200)["data"].([]any)
	for _, l := range logins {
		if l := l.(map[string]any); l["current"] != true {
			s.ask(t, http.MethodDelete, "me/logins/"+text(l, "id"), me, "", 204)
			break
		}
	}
	post("me/password", me, 204, `{"old_password":%q,"new_password":%q}`, password+"2", password+"3")
	post("me/phone", me, 401, `{"phone":"13800138556","code":"000000","refresh_token":%q}`, text(mine, "refresh_token"))
	s.post(t, "me/logout-others", me, "", 204)
	s.post(t, "auth/logout", text(other, "access_token"), "", 401)
	post("auth/login/wechat", "", 503, `{"code":"x"}`)
	s.post(t, "auth/wechat/state", "", "", 503)

	for _, end := range []string{"confirm", "deny"} {
		asked := post("auth/qr", "", 201, `{"device":{"kind":"web","id":"tv","name":"TV"}}`)
		qr := "auth/qr/" + text(asked, "qr_id")
		s.get(t, qr+"/image.png", "", 200)
		scan := s.post(t, qr+"/scan", me, "", 200)
		now := s.ask(t, http.MethodGet, qr, "", "", 200, "QR-Secret", text(asked, "poll_secret"))
		if end == "confirm" {
			post(qr+"/confirm", me, 409, `{"scan_token":"x","number":10,"refresh_token":""}`)
			post(qr+"/confirm", me, 204, `{"scan_token":%q,"number":%v,"refresh_token":%q}`, text(scan, "scan_token"), now["number"], text(mine, "refresh_token"))
		} else {
			post(qr+"/deny", me, 204, `{"scan_token":%q}`, text(scan, "scan_token"))
		}
		s.ask(t, http.MethodGet, qr, "", "", 200, "QR-Secret", text(asked, "poll_secret"))
	}

	user := "admin/users/" + text(account, "id")
	begun := post("me/totp", me, 201, `{"refresh_token":%q}`, text(mine, "refresh_token"))
	app := func(at time.Time) string {
		t.Helper()
		code, err := totp.GenerateCode(text(begun, "secret"), at)
		require.NoError(t, err)
		return code
	}
	post("me/totp/confirm", me, 200, `{"code":%q}`, app(time.Now()))
	post("auth/login", "", 403, `{"phone":%q,"password":%q}`, phone, password+"3")
	post("auth/login", "", 401, `{"phone":%q,"password":%q,"totp":%q}`, phone, password+"3", app(time.Now().Add(-time.Hour)))
	recovery, _ := post("me/totp/recovery-codes", me, 201, `{"password":%q,"code":%q}`, password+"3", app(time.Now().Add(30*time.Second)))["recovery_codes"].([]any)
	s.ask(t, http.MethodDelete, "me/totp", me, fmt.Sprintf(`{"code":%q}`, recovery[0]), 204)
	mine = post("auth/login", "", 200, `{"phone":%q,"password":%q}`, phone, password+"3")
	post("me/totp", text(mine, "access_token"), 201, `{"refresh_token":%q}`, text(mine, "refresh_token"))
	s.ask(t, http.MethodDelete, user+"/totp", s.admin, "", 204)
	s.get(t, "admin/settings", s.operator, 403)
	s.get(t, "admin/settings", s.admin, 200)
	s.get(t, "admin/users?phone="+phone, s.admin, 200)
	s.get(t, user, s.admin, 200)
	post(user+"/disable", s.operator, 403, `{"reason":"x"}`)
	post(user+"/disable", s.admin, 204, `{"reason":"A test"}`)
	for _, do := range []string{"enable", "end-logins"} {
		s.post(t, user+"/"+do, s.admin, "", 204)
	}
	post(user+"/role", s.admin, 204, `{"role":"viewer"}`)
	last := post("auth/login", "", 200, `{"phone":%q,"password":%q}`, phone, password+"3")
	s.post(t, "auth/logout", text(last, "access_token"), "", 204)
	last = post("auth/login", "", 200, `{"phone":%q,"password":%q}`, phone, password+"3")
	s.ask(t, http.MethodDelete, "me", text(last, "access_token"), fmt.Sprintf(`{"password":%q}`, password+"3"), 204)
}
