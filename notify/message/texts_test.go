package message

import (
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/sms"
	"stampede/platform/workshop/require"
)

// Every built-in text has only placeholders of its kind, and is at most two SMS.
func TestBuiltInTexts(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	for _, k := range Kinds {
		for lang := range languages {
			var flaws fault.Flaws
			checkText(&flaws, "body", k, bodies[k][lang])
			require.NoError(t, flaws.Err())
			v := b.show(texts{}, place{k, channelSMS, httpx.Language(lang)})
			if v.Parts > 2 || strings.ContainsAny(v.Preview, "{}") {
				t.Errorf("%s is %d SMS: %s", k, v.Parts, v.Preview)
			}
		}
	}
}

// What operators write is checked, shown, sent, and gone with an empty body.
func TestOperatorWritesATextAndTestsIt(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	operator := b.user(london)
	const path = "/api/v1/admin/shopper-message-texts/won/sms/en"
	write := func(body string) map[string]any { return map[string]any{"body": body, "template": "SMS_1"} }
	b.ask(7, "admin", http.MethodPut, path, write("Hi {name}, {tracking}")).Want(t, "unknown placeholders", 422, "invalid", "{name} is no placeholder", "{tracking} is no placeholder", "{item}")
	b.ask(7, "admin", http.MethodPut, path, write("Hi {item")).Want(t, "a stray brace", 422, "invalid", "A brace stands for a placeholder")
	b.ask(7, "operator", http.MethodPut, path, write("Hi")).Want(t, "an operator", 403, "forbidden")
	b.ask(7, "viewer", http.MethodPost, path+"/preview", write("Yours: {item}")).Want(t, "preview", 200, "", `[好店] Yours: Phone 12 Pro`, `"parts":1`)
	b.ask(7, "admin", http.MethodPut, path, write("Yours: {item}")).Want(t, "write", 200, "", `"built_in":false`)
	b.ask(operator, "operator", http.MethodPost, path+"/test", nil).Want(t, "test", 200, "")
	b.ask(7, "operator", http.MethodPost, path+"/test", nil).Want(t, "no phone", 409, "message-no-address")
	user := b.user("+12025550123")
	b.happens(orderevent.SubjectCreated, pending(user, time.Now().Add(time.Hour)))
	b.drain()
	require.Equal(t, "sent", strings.Join(append(b.gw.to(london), b.gw.to("+12025550123")...), "|"), "[好店] Yours: Phone 12 Pro|[好店] Yours: 手机")
	last := b.gw.taken[len(b.gw.taken)-1]
	if last.Template != "SMS_1" || len(last.Params) != 1 || last.Params[0].Name != "item" || last.Params[0].Value != "手机" {
		t.Errorf("the gateway got %+v", last)
	}
	b.ask(7, "admin", http.MethodPut, path, write(" ")).Want(t, "built in again", 200, "", `"built_in":true`, "You got")
	b.ask(7, "viewer", http.MethodGet, path, nil).Want(t, "one", 200, "", `"built_in":true`)
	b.ask(7, "viewer", http.MethodGet, "/api/v1/admin/shopper-message-texts", nil).Want(t, "all", 200, "", `"kind":"dispute"`)
}

func TestRulesAreCheckedAndApply(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	const path = "/api/v1/admin/shopper-message-rules"
	b.ask(7, "viewer", http.MethodGet, path, nil).Want(t, "defaults", 200, "", `"available":["sms"]`, `"ahead_minutes":15`)
	for kind, body := range map[string]map[string]any{
		"/reminder": {"on": true, "ahead_minutes": 4},
		"/deadline": {"on": true},
	} {
		b.ask(7, "admin", http.MethodPut, path+kind, body).Want(t, kind, 422, "invalid", "body.ahead_minutes")
	}
	b.ask(7, "admin", http.MethodPut, path+"/won", map[string]any{"on": false}).Want(t, "off", 200, "")
	general := map[string]any{"language": "zh", "budget": 9, "budget_per": "day", "quiet_from": "23:00", "quiet_until": "07:00"}
	b.ask(7, "admin", http.MethodPut, path, general).Want(t, "general", 200, "", `"budget":9`)
	general["quiet_from"] = "24:00"
	b.ask(7, "admin", http.MethodPut, path, general).Want(t, "no such hour", 422, "invalid")
	b.happens(orderevent.SubjectCreated, pending(b.user(hangzhou), time.Now().Add(time.Hour)))
	require.Equal(t, "messages of a kind that is off", b.count(waiting), 0)
	r, err := b.instance().rules(t.Context())
	require.NoError(t, err)
	require.Equal(t, "another instance reads", []any{r.Language, r.of(Won).On, r.of(Paid).On}, []any{"zh", false, true})
}

// A shop that delivers by itself has no number to tell.
func TestParcelWithoutANumber(t *testing.T) {
	t.Parallel()
	f := facts{Item: "Phone", Carrier: fault.T("Own delivery", "商家自送")}
	for lang, want := range fault.T("Phone is on its way with Own delivery, tracking number none.", "您购买的Phone已发货，商家自送，运单号无，请注意查收。") {
		words := f.words(ids.New(), httpx.Language(lang), time.Now(), time.UTC)
		require.Equal(t, "text", fill(bodies[Shipped][lang], words), want)
	}
}

func TestParts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		china      bool
		want       int
	}{
		{"nothing", "", false, 1},
		{"GSM, one", strings.Repeat("a", 160), false, 1},
		{"GSM, two", strings.Repeat("a", 161), false, 2},
		{"GSM, full two", strings.Repeat("a", 306), false, 2},
		{"GSM, three", strings.Repeat("a", 307), false, 3},
		{"an escape counts two", strings.Repeat("a", 159) + "€", false, 2},
		{"an escape is not split", strings.Repeat("a", 152) + "€" + strings.Repeat("a", 152), false, 3},
		{"wide, one", strings.Repeat("好", 70), false, 1},
		{"wide, two", strings.Repeat("好", 71), false, 2},
		{"wide, full two", strings.Repeat("好", 134), false, 2},
		{"wide, three", strings.Repeat("好", 135), false, 3},
		{"an emoji counts two", strings.Repeat("好", 69) + "😀", false, 2},
		{"an emoji is not split", strings.Repeat("好", 66) + "😀" + strings.Repeat("好", 66), false, 3},
		{"China counts letters alike", strings.Repeat("a", 71), true, 2},
		{"China, one", strings.Repeat("a", 70), true, 1},
	} {
		require.Equal(t, c.name, Parts(c.text, c.china), c.want)
	}
}

// FuzzParts compares with an independent formula: the units of GSM 03.38 or of UTF-16, divided by the room of a part, where
// a part loses a place for each pair that would be split.
func FuzzParts(f *testing.F) {
	for _, text := range []string{"", "Hello", strings.Repeat("€", 90), strings.Repeat("好😀", 40), "\x00", strings.Repeat("{}", 80)} {
		f.Add(text, true)
		f.Add(text, false)
	}
	const twice = "\f^{}\\[~]|€"
	f.Fuzz(func(t *testing.T, text string, china bool) {
		var starts []bool // whether a character begins at each unit
		wide := china
		for _, r := range text {
			wide = wide || !strings.ContainsRune(gsmBasic+twice, r)
		}
		for _, r := range text {
			n := len(utf16.Encode([]rune{r}))
			if !wide {
				n = 1 + strings.Count(twice, string(r))
			}
			for i := range n {
				starts = append(starts, i == 0)
			}
		}
		one, many := 160, 153
		if wide {
			one, many = 70, 67
		}
		want := 1
		if len(starts) > one {
			want = 0
			for at := 0; at < len(starts); want++ {
				at += many
				if at < len(starts) && !starts[at] {
					at--
				}
			}
		}
		if got := Parts(text, china); got != want {
			t.Fatalf("%q, China %v: %d parts, want %d", text, china, got, want)
		}
	})
}

// Characters that Postgres, a log line or the reader's display does not bear are refused; lines are not.
func TestTextsHaveNoControlCharacters(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	const path = "/api/v1/admin/shopper-message-texts/won/sms/zh"
	for _, bad := range []string{"\x1b[2J", "\u202e"} {
		b.ask(7, "admin", http.MethodPut, path, map[string]any{"body": "您好" + bad + "{item}"}).Want(t, "body", 422, "invalid", "body.body")
		b.ask(7, "admin", http.MethodPut, path, map[string]any{"body": "您好", "template": "1" + bad}).Want(t, "template", 422, "invalid", "body.template")
	}
	b.ask(7, "admin", http.MethodPut, path, map[string]any{"body": "您好\n{item}"}).Want(t, "two lines", 200, "")
}

// Providers refuse a message with a longer value, and a title has up to 120 characters: the text has all of it.
func TestLongTitleFitsProvidersParameters(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	o := pending(b.user(hangzhou), time.Now().Add(time.Hour))
	o.Title = strings.Repeat("好", 120)
	b.happens(orderevent.SubjectCreated, o)
	b.drain()
	got := b.gw.taken[0]
	require.Contains(t, "text", got.Text, o.Title)
	require.Equal(t, "parameter", got.Params[0], sms.Param{Name: "item", Value: strings.Repeat("好", 34) + "…"})
}
