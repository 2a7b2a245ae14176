package message

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/sms"
	"stampede/platform/edge/sms/aliyun"
	"stampede/platform/edge/sms/tencent"
	"stampede/platform/identity/account/wechat"
	"stampede/platform/identity/wechatmsg"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/smstest"
	"stampede/platform/workshop/wechattest"
)

// linkWeChat gives the shop both apps, and a text for the message about a win in one of them.
func (b *bundle) linkWeChat(channel string) *wechattest.Server {
	b.t.Helper()
	srv := wechattest.New(b.t)
	b.deps.WeChat = wechatmsg.New(wechatmsg.Config{
		BaseURL: srv.URL, Log: slog.New(slog.DiscardHandler),
		Apps: map[wechat.Kind]wechat.App{wechat.Official: {ID: srv.AppID, Secret: srv.Secret}, wechat.Mini: {ID: srv.MiniAppID, Secret: srv.Secret}},
	})
	b.t.Cleanup(b.deps.WeChat.CloseIdleConnections)
	b.ask(7, "admin", http.MethodPut, "/api/v1/admin/shopper-message-texts/won/"+channel+"/zh", map[string]any{
		"body": "thing1 = 抢到{item}\npage = pages/order?q={quantity}", "template": wechattest.TemplateID,
	}).Want(b.t, "text for WeChat", 200, "")
	return srv
}

// linked adds an account, with a phone unless it is empty, that has linked WeChat in both apps.
func (b *bundle) linked(srv *wechattest.Server, phone, openID string) (user int64) {
	b.t.Helper()
	user = pgtest.Read[int64](b.t, b.db, `INSERT INTO account.users (phone) VALUES (nullif($1, '')) RETURNING id`, phone)
	pgtest.Exec(b.t, b.db, `INSERT INTO account.wechat_identities (app_id, open_id, user_id) VALUES ($1, $3, $4), ($2, $3, $4)`, srv.AppID, srv.MiniAppID, openID, user)
	return user
}

func (b *bundle) rows() string {
	b.t.Helper()
	return pgtest.Read[string](b.t, b.db, `SELECT string_agg(concat_ws(' ', kind, state, channel, recipient, parts), ', ' ORDER BY user_id, kind) FROM notify.messages`)
}

// A win arrives in WeChat, in the app whose text the shop has written. A reader who has not agreed, one who has not linked
// WeChat, and a kind without a text for WeChat get the SMS.
func TestWeChatThenSMS(t *testing.T) {
	t.Parallel()
	const undecided, unlinked = "+8613800138001", "+8613800138002"
	for _, channel := range []string{channelOfficial, channelMini} {
		b := setup(t, takes)
		srv := b.linkWeChat(channel)
		srv.Subscribed["open-li"], srv.Subscribed["open-without-phone"] = 1, 1
		users := []int64{b.linked(srv, hangzhou, "open-li"), b.linked(srv, "", "open-without-phone"), b.linked(srv, undecided, "open-wu"), b.user(unlinked)}
		for _, user := range users {
			o := pending(user, time.Now().Add(time.Hour))
			o.Title = strings.Repeat("手机", 10) + "壳" // one SMS at any time of day
			b.happens(orderevent.SubjectCreated, o)
		}
		b.drain()
		require.Equal(t, "rows", b.rows(), strings.ReplaceAll("won sent W 0, won sent W 0, won sent sms 138****8001 1, won sent sms 138****8002 1", "W", channel+" "))
		got, _ := srv.Messages()
		require.Equal(t, "messages in WeChat", len(got), 2)
		require.Equal(t, "app, field and page", []any{got[0].App, got[0].Data["thing1"].Value, got[0].Page + got[0].URL},
			[]any{b.deps.WeChat.AppID(appOf[channel]), "抢到" + strings.Repeat("手机", 8) + "手…", "pages/order?q=1"})
		require.Equal(t, "SMS", []int{len(b.gw.to(hangzhou)), len(b.gw.to(undecided)), len(b.gw.to(unlinked))}, []int{0, 1, 1})
		paid := pending(users[0], time.Now().Add(time.Hour))
		paid.Status, paid.PaidAt = orderevent.StatusPaid, time.Now()
		other := pending(users[1], time.Now().Add(time.Hour))
		other.Status, other.PaidAt = orderevent.StatusPaid, time.Now()
		b.happens(orderevent.SubjectPaid, paid, other)
		b.drain()
		require.Equal(t, "rows of the payments: without a phone and a text there is none", pgtest.Read[string](t, b.db,
			`SELECT string_agg(concat_ws(' ', state, channel), ', ') FROM notify.messages WHERE kind = 'paid'`), "sent sms")
		require.Equal(t, "days", pgtest.Read[string](t, b.db, `SELECT string_agg(concat_ws(' ', kind, channel, sent, parts), ', ' ORDER BY kind, channel) FROM notify.message_days`),
			strings.ReplaceAll("paid sms 1 1, won sms 2 2, won W 2 0", "W", channel))
		leaked := pgtest.Read[int](t, b.db, `SELECT count(*)::int FROM notify.messages m WHERE m::text LIKE '%open-%'`)
		require.Equal(t, "rows with an openid", leaked, 0)
	}
}

// While WeChat is away a message about an order goes by SMS. Where that is away too it waits, and arrives once, by the first
// that is back.
func TestWeChatOutage(t *testing.T) {
	t.Parallel()
	for ill, channels := range map[int][]string{-1: {channelOfficial, channelMini}, 45011: {channelMini}, 1: {channelOfficial}} {
		for _, channel := range channels {
			b := setup(t, takes)
			srv := b.linkWeChat(channel)
			srv.Subscribed["open-li"], srv.Subscribed["open-wu"] = 2, 2
			srv.FallIll(ill)
			b.happens(orderevent.SubjectCreated, pending(b.linked(srv, hangzhou, "open-li"), time.Now().Add(time.Hour)))
			b.drain()
			require.Equal(t, "rows while WeChat is away", b.rows(), "won sent sms 138****8000 1")
			b.happens(orderevent.SubjectCreated, pending(b.linked(srv, "", "open-wu"), time.Now().Add(time.Hour)))
			for range 3 {
				b.dueNow()
				_, err := b.batch(t.Context(), lane{})
				require.NoError(t, err)
			}
			require.Equal(t, "rows while all are away", b.rows(), "won sent sms 138****8000 1, won waiting "+channel+"  0")
			srv.FallIll(0)
			b.drain()
			got, _ := srv.Messages()
			require.Equal(t, "arrived, and SMS", []int{len(got), len(b.gw.to(hangzhou))}, []int{1, 1})
		}
	}
}

// A reader whom only WeChat reaches gets the shop's text in the other language where there is none in theirs.
func TestWeChatInTheOtherLanguage(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	srv := b.linkWeChat(channelOfficial)
	srv.Subscribed["open-li"], srv.Subscribed["open-wu"] = 1, 1
	for open, phone := range map[string]string{"open-li": "", "open-wu": hangzhou} {
		user := b.linked(srv, phone, open)
		pgtest.Exec(t, b.db, `INSERT INTO notify.message_preferences (user_id, language) VALUES ($1, 'en')`, user)
		b.happens(orderevent.SubjectCreated, pending(user, time.Now().Add(time.Hour)))
	}
	b.drain()
	require.Equal(t, "messages", pgtest.Read[string](t, b.db,
		`SELECT string_agg(state || ' ' || channel, ', ' ORDER BY channel) FROM notify.messages`), "sent sms, sent wechat")
	got, _ := srv.Messages()
	require.Contains(t, "in Chinese", got[0].Data["thing1"].Value, "抢到")
	require.Contains(t, "in English", b.gw.to(hangzhou)[0], "You got")
}

// An offer waits for WeChat, which costs nothing. A number that SMS refuses does not end what WeChat may still take.
func TestWhatWaitsForWeChat(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ int, m sms.Message) int {
		if m.Phone == hangzhou {
			return http.StatusUnprocessableEntity
		}
		return http.StatusOK
	})
	srv := b.linkWeChat(channelMini)
	b.ask(7, "admin", http.MethodPut, "/api/v1/admin/shopper-message-texts/reminder/wechat-mini/zh", map[string]any{"body": "thing1 = {item}", "template": wechattest.TemplateID}).Want(t, "text", 200, "")
	srv.Subscribed["open-li"], srv.Subscribed["open-wu"] = 1, 1
	srv.FallIll(-1)
	b.rule(func(r *Rules) { r.QuietUntil = r.QuietFrom })
	b.opens(5, 10*time.Minute, b.linked(srv, "+8613800138001", "open-wu"))
	require.NoError(t, b.remind(t.Context()))
	b.happens(orderevent.SubjectCreated, pending(b.linked(srv, hangzhou, "open-li"), time.Now().Add(time.Hour)))
	b.dueNow()
	for _, offers := range []bool{false, true} {
		_, err := b.batch(t.Context(), lane{offers: offers})
		require.NoError(t, err)
	}
	require.Equal(t, "rows while WeChat is away", b.rows(), "reminder waiting wechat-mini  0, won waiting wechat-mini  0")
	srv.FallIll(0)
	b.dueNow()
	b.drain()
	require.Equal(t, "rows when it is back", b.rows(), "reminder sent wechat-mini  0, won sent wechat-mini  0")
}

// A message whose answer got lost may have arrived. Channels that do not know a repetition get it once: it ends with a
// reason and an alarm, and only an operator who asks for it alone sends it again.
func TestUnclearAnswerIsNotRepeated(t *testing.T) {
	t.Parallel()
	for channel, open := range map[string]func(b *bundle) (calls func() int, heal func()){
		"tencent": func(b *bundle) (func() int, func()) { return b.provider(smstest.Tencent(b.t, time.Now), "tencent") },
		"aliyun":  func(b *bundle) (func() int, func()) { return b.provider(smstest.Aliyun(b.t, time.Now), "aliyun") },
		"wechat-mini": func(b *bundle) (func() int, func()) {
			srv := b.linkWeChat(channelMini)
			srv.Subscribed["open-li"] = 1
			pgtest.Exec(b.t, b.db, `INSERT INTO account.wechat_identities (app_id, open_id, user_id) SELECT $1, 'open-li', id FROM account.users`, srv.MiniAppID)
			srv.FallIll(1)
			return func() int { got, _ := srv.Messages(); return len(got) + len(b.gw.to(hangzhou)) }, func() { srv.FallIll(0) }
		},
	} {
		t.Run(channel, func(t *testing.T) {
			t.Parallel()
			b := setup(t, takes)
			user := b.user(hangzhou)
			calls, heal := open(b)
			b.happens(orderevent.SubjectCreated, pending(user, time.Now().Add(time.Hour)))
			b.drain()
			before := calls()
			require.Contains(t, "dead", b.reasons(dead), "won: "+reasonUnclear)
			heal()
			const path = "/api/v1/admin/shopper-messages/"
			b.ask(7, "operator", http.MethodPost, path+"redrive", map[string]any{"kind": "won"}).Want(t, "all", 200, "", `"redriven":0`)
			b.drain()
			require.Equal(t, "sent by then", calls(), before)
			id := pgtest.Read[ids.ID](t, b.db, `SELECT id FROM notify.messages`)
			b.ask(7, "operator", http.MethodPost, path+id.String()+"/redrive", nil).Want(t, "the one", 200, "", `"redriven":1`)
			b.drain()
			require.Equal(t, "sent", []int{b.count(sent), calls()}, []int{1, before + 1})
		})
	}
}

// provider sends through one that breaks off its answers, until it is healed.
func (b *bundle) provider(srv *smstest.Server, name string) (calls func() int, heal func()) {
	b.t.Helper()
	srv.Approved["SMS_1"] = []string{"item"}
	srv.Approved["1"] = []string{"item"}
	srv.Fail(smstest.Breaks)
	cfg := sms.Settings{
		SMSProvider: name, SMSGatewayURL: srv.URL, SMSKeyID: smstest.KeyID, SMSGatewaySecret: smstest.Secret, SMSAppID: smstest.AppID, SMSSignature: smstest.Signature,
	}.Provider()
	id := "1"
	var sender interface {
		sms.Sender
		CloseIdleConnections()
	}
	var err error
	if name == "aliyun" {
		id = "SMS_1"
		sender, err = aliyun.New(cfg, time.Now, slog.New(slog.DiscardHandler))
	} else {
		sender, err = tencent.New(cfg, time.Now, slog.New(slog.DiscardHandler))
	}
	require.NoError(b.t, err)
	b.t.Cleanup(sender.CloseIdleConnections)
	b.deps.Sender = sender
	b.ask(7, "admin", http.MethodPut, "/api/v1/admin/shopper-message-texts/won/sms/zh", map[string]any{"body": "恭喜您抢到{item}", "template": id}).Want(b.t, "text", 200, "")
	return srv.Calls, func() { srv.Fail(smstest.None) }
}

// A carrier may charge an SMS whose answer got lost: the next batch has what is left.
func TestUnclearAnswerUsesTheBudget(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	calls, _ := b.provider(smstest.Tencent(t, time.Now), "tencent")
	b.rule(func(r *Rules) { r.Budget, r.BudgetPer, r.QuietUntil = 1, "day", r.QuietFrom })
	text := map[string]any{"body": "{item}", "template": "1"}
	b.ask(7, "admin", http.MethodPut, "/api/v1/admin/shopper-message-texts/reminder/sms/zh", text).Want(t, "text", 200, "")
	before := 0
	for i, phone := range []string{hangzhou, "+8613800138001"} {
		b.opens(int64(5+i), 10*time.Minute, b.user(phone))
		require.NoError(t, b.remind(t.Context()))
		b.dueNow()
		b.drain()
		if i == 0 {
			require.Contains(t, "dead", b.reasons(dead), "reminder: "+reasonUnclear)
			before = calls()
		}
	}
	require.Equal(t, "dropped, and calls for it", []any{b.reasons(dropped), calls() - before}, []any{"reminder: budget used up", 0})
	counts := pgtest.Read[string](t, b.db, `SELECT concat_ws(' ', sum(sent), sum(parts), sum(dead)) FROM notify.message_days`)
	require.Equal(t, "sent, SMS and dead", counts, "0 1 1")
}

// WeChat costs nothing: an offer goes by it when the budget of SMS is used up.
func TestBudgetCountsSMSOnly(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	srv := b.linkWeChat(channelMini)
	b.ask(7, "admin", http.MethodPut, "/api/v1/admin/shopper-message-texts/reminder/wechat-mini/zh", map[string]any{"body": "thing1 = {item}", "template": wechattest.TemplateID}).Want(t, "text", 200, "")
	srv.Subscribed["open-li"] = 1
	b.rule(func(r *Rules) { r.Budget, r.QuietUntil = 1, r.QuietFrom })
	b.opens(5, 10*time.Minute, b.linked(srv, hangzhou, "open-li"), b.linked(srv, "+8613800138001", "open-wu"), b.user("+8613800138002"))
	require.NoError(t, b.remind(t.Context()))
	b.dueNow()
	b.drain()
	require.Equal(t, "sent and dropped", []any{b.count(sent), b.reasons(dropped), len(b.gw.taken)}, []any{2, "reminder: budget used up", 1})
}

// A shop without a channel makes no message, and has no worker.
func TestWithoutChannelsNothingIsMade(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	b.deps.Sender = nil
	b.happens(orderevent.SubjectCreated, pending(b.user(hangzhou), time.Now().Add(time.Hour)))
	require.Equal(t, "messages and workers", []int{b.count(waiting), len(b.Workers())}, []int{0, 0})
	b.ask(7, "viewer", http.MethodGet, "/api/v1/admin/shopper-message-rules", nil).Want(t, "rules", 200, "", `"available":[]`)
	b.ask(7, "operator", http.MethodPost, "/api/v1/admin/shopper-message-texts/won/sms/zh/test", nil).Want(t, "test", 409, "message-no-address")
}

// An operator's text for WeChat has a template and a line for each of its fields; a test goes to the operator's own WeChat.
func TestOperatorWritesATextForWeChat(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	srv := b.linkWeChat(channelOfficial)
	operator := b.linked(srv, "", "open-operator")
	srv.Subscribed["open-operator"] = 1
	const path = "/api/v1/admin/shopper-message-texts/paid/wechat/zh"
	for _, body := range []string{"您买的{item}", "thing1 = ", "thing1 = {item}\nthing1 = {shop}", "Thing 1 = {item}", "thing1 = {minutes}", "= {item}", "page = pages/index"} {
		b.ask(7, "admin", http.MethodPut, path, map[string]any{"body": body, "template": "t"}).Want(t, body, 422, "invalid", "body.body")
	}
	b.ask(7, "admin", http.MethodPut, path, map[string]any{"body": "thing1 = {item}"}).Want(t, "no template", 422, "invalid", "body.template")
	b.ask(7, "viewer", http.MethodGet, path, nil).Want(t, "none", 200, "", `"built_in":true`, `"body":""`)
	b.ask(operator, "operator", http.MethodPost, path+"/test", nil).Want(t, "no text", 409, "message-no-text")
	body := "thing1 = {item}\namount2 = {amount}\npage = https://shop.example/orders"
	b.ask(7, "viewer", http.MethodPost, path+"/preview", map[string]any{"body": body, "template": "t"}).Want(t, "preview", 200, "", `thing1: Phone 12 Pro\namount2: ¥99.00"`, `"parts":0`)
	b.ask(7, "admin", http.MethodPut, path, map[string]any{"body": "thing1 = {item}", "template": wechattest.TemplateID}).Want(t, "write", 200, "", `"built_in":false`)
	b.ask(7, "operator", http.MethodPost, path+"/test", nil).Want(t, "not linked", 409, "message-no-address")
	b.ask(operator, "operator", http.MethodPost, path+"/test", nil).Want(t, "test", 200, "")
	got, _ := srv.Messages()
	require.Equal(t, "tests", []any{len(got), got[0].URL}, []any{1, "https://shop.example/"})
	srv.Subscribed["open-operator"] = 0
	b.ask(operator, "operator", http.MethodPost, path+"/test", nil).Want(t, "does not follow", 422, "wechat-message-refused")
	b.ask(7, "viewer", http.MethodGet, "/api/v1/admin/shopper-message-texts", nil).Want(t, "all", 200, "", `"channel":"wechat"`, `"channel":"wechat-mini"`, `"channel":"sms"`)
}

// WeChat refuses a message with a value that does not fit its field: times and amounts have its form, and a tap opens the
// order where the text names no page.
func TestValuesFitWeChatsFields(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	no := ids.New()
	f := facts{Item: strings.Repeat("好", 21), Amount: 123456789, Currency: "CNY", At: time.Date(2026, 1, 2, 20, 5, 30, 0, time.UTC)}
	own := text{"thing1 = {item}\r\n\r\ntime2={time}\namount3 = {amount}\ncharacter_string4 = a=b", "t"}
	for channel, page := range map[string]string{channelOfficial: "https://shop.example/?order=" + no.String(), channelMini: ""} {
		m := b.compose(place{Won, channel, httpx.English}, own, &f, 9, no, ids.New(), "open-li").wechat
		require.Equal(t, "page", m.Page, page)
		require.Equal(t, "fields", m.Data, map[string]string{
			"thing1": strings.Repeat("好", 19) + "…", "time2": "2026年1月2日 20:05", "amount3": "¥1234567.89", "character_string4": "a=b",
		})
	}
}
