package humancheck

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/edge/outbound"
	"stampede/platform/workshop/require"
)

// withCaptcha is a bundle with a stand-in of a kind.
func withCaptcha(t *testing.T, kind VerifierKind, rule DownRule, change ...func(*Config, *Deps)) (*bundle, captcha) {
	t.Helper()
	var c captcha = &fakeVerifier{Secret: testSecret}
	if kind.bound() {
		c = newFakeCloud(kind, time.Now)
	}
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	return setup(t, append([]func(*Config, *Deps){verifierAt(srv.URL, rule), func(c *Config, _ *Deps) {
		c.VerifierKind, c.VerifierSiteKey, c.VerifierSecret, c.VerifierPrefix = kind, testApp, testSecret, "1ab2cd"
		c.VerifierAccessKey, c.VerifierAccessSecret = testKeyID, testKey2
	}}, change...)...), c
}

var verifierKinds = []VerifierKind{Siteverify, GeeTest, Tencent, Aliyun}

// TestEachKindOfVerifierConforms runs the same checks with every kind.
func TestEachKindOfVerifierConforms(t *testing.T) {
	t.Parallel()
	const patience = 500 * time.Millisecond
	wrongSecret := func(c *Config, _ *Deps) { c.VerifierSecret = "other" }
	wrongKey := func(c *Config, _ *Deps) { c.VerifierAccessSecret = "other" }
	const down, wrong = "human-check-unavailable", "human-check-failed wrong"
	for name, c := range map[string]struct {
		kinds   []VerifierKind // nil is all
		change  func(*Config, *Deps)
		trouble trouble
		denied  bool
		want    string
	}{
		"good":                {want: "ok"},
		"refused":             {denied: true, want: wrong},
		"wrong secret":        {kinds: []VerifierKind{Siteverify}, change: wrongSecret, want: down},
		"wrong captcha_key":   {kinds: []VerifierKind{GeeTest}, change: wrongSecret, want: wrong},
		"wrong AppSecretKey":  {kinds: []VerifierKind{Tencent}, change: wrongSecret, want: wrong},
		"wrong access secret": {kinds: []VerifierKind{Tencent, Aliyun}, change: wrongKey, want: down},
		"wrong site key":      {kinds: []VerifierKind{GeeTest, Aliyun}, change: func(c *Config, _ *Deps) { c.VerifierSiteKey = "1" }, want: down},
		"hanging":             {trouble: hangs, change: func(c *Config, _ *Deps) { c.VerifierTimeout = patience }, want: down},
		"500":                 {trouble: broken, want: down},
		"garbage":             {trouble: garbage, want: down},
		"quota":               {trouble: spent, want: down},
	} {
		kinds := c.kinds
		if kinds == nil {
			kinds = verifierKinds
		}
		for _, kind := range kinds {
			t.Run(name+", "+string(kind), func(t *testing.T) {
				t.Parallel()
				sub, change := rush(7, 42), c.change
				if change == nil {
					change = func(*Config, *Deps) {}
				}
				b, stand := withCaptcha(t, kind, Refuse, change)
				widget := b.challenge(Verifier, sub).Verifier
				require.Equal(t, "whose widget", widget.Provider, kind)
				given := stand.Solve(widget, c.denied)
				stand.Be(c.trouble)
				err := b.check(Verifier, sub, "verifier:"+given)
				require.Equal(t, "the outcome", outcome(err), c.want)
				if err != nil && (strings.Contains(err.Error(), testSecret) || strings.Contains(err.Error(), testKey2)) {
					t.Errorf("a secret is in the error: %v", err)
				}
				switch {
				case c.want == "ok":
					b.wants(t, Verifier, sub, "verifier:"+given, "human-check-failed used", "the second use")
					stand.Forget()
					b.wants(t, Verifier, sub, "verifier:"+given, "human-check-failed used", "the second use at a forgetful provider")
					replaysWithAnotherTicket(t, b, stand, sub, given)
				case c.want == down && c.change == nil:
					stand.Be(fine)
					b.wants(t, Verifier, sub, "verifier:"+given, "ok", "the same token when the provider is back")
				}
				if c.want != down {
					return
				}
				b, stand = withCaptcha(t, kind, StandIn, change)
				given = stand.Solve(b.challenge(Verifier, sub).Verifier, false)
				stand.Be(c.trouble)
				err = b.check(Verifier, sub, "verifier:"+given)
				require.Equal(t, "the outcome under the rule pow", outcome(err), "human-check-required")
				offered, _ := fault.From(err).Fields["challenge"].(Challenge)
				b.wants(t, Verifier, sub, b.solve(offered), "ok", "the proof of work in the verifier's place")
			})
		}
	}
}

// replaysWithAnotherTicket sends what a widget gave with the ticket of a new challenge.
func replaysWithAnotherTicket(t *testing.T, b *bundle, stand captcha, sub Subject, given string) {
	t.Helper()
	if !b.bound() {
		return
	}
	_, answer, _ := strings.Cut(given, ".")
	again := "verifier:" + b.challenge(Verifier, sub).Verifier.Data + "." + answer
	stand.Forget()
	b.wants(t, Verifier, sub, again, "human-check-failed used", "a replay that the provider forgot")
	_ = b.check(Verifier, sub, again) // the provider has marked it again
	b.wants(t, Verifier, sub, again, "human-check-failed used", "a replay that the provider refuses")
}

// TestWhatIsMadeUpReachesNoProvider: it costs the shop nothing, and no client can open the
// breaker with it.
func TestWhatIsMadeUpReachesNoProvider(t *testing.T) {
	t.Parallel()
	sub := rush(7, 42)
	for _, kind := range []VerifierKind{GeeTest, Tencent, Aliyun} {
		b, stand := withCaptcha(t, kind, StandIn)
		w := b.challenge(Verifier, sub).Verifier
		_, answer, _ := strings.Cut(stand.Solve(w, false), ".")
		for name, c := range map[string]struct{ token, want string }{
			"no ticket":        {answer, "malformed"},
			"no answer":        {w.Data + ".", "malformed"},
			"padding":          {w.Data + "." + answer + "=", "malformed"},
			"not JSON":         {w.Data + "." + answerEncoding.EncodeToString([]byte("ok")), "malformed"},
			"null":             {pack(w, nil), "malformed"},
			"another member":   {pack(w, object{"ticket": "a", "randstr": "b", "lot_number": "c", "captcha_verify_param": "d"}), "malformed"},
			"a number":         {pack(w, object{"ticket": 1, "lot_number": 1, "captcha_verify_param": 1}), "malformed"},
			"two documents":    {w.Data + "." + answerEncoding.EncodeToString([]byte(`{"captcha_verify_param":"a"} {}`)), "malformed"},
			"empty members":    {pack(w, object{}), "malformed"},
			"too long":         {w.Data + "." + strings.Repeat("a", MaxSolutionBytes), "malformed"},
			"another's ticket": {b.challenge(Verifier, rush(8, 42)).Verifier.Data + "." + answer, "foreign"},
			"a forged ticket":  {strings.Repeat("A", ticketTextBytes) + "." + answer, "forged"},
			"a work's ticket":  {b.challenge(Pow, sub).Challenge + "." + answer, "foreign"},
		} {
			b.wants(t, Verifier, sub, "verifier:"+c.token, "human-check-failed "+c.want, string(kind)+": "+name)
		}
		if kind == Tencent {
			made := pack(w, tencentAnswer{Ticket: "trerror_1001_" + testApp + "_1700000000", Rand: "@abc"})
			b.wants(t, Verifier, sub, "verifier:"+made, "human-check-failed wrong", "a ticket that the widget makes up when it reaches nobody")
		}
		require.Equal(t, "requests to "+string(kind), stand.Asked(), 0)
		b.clock.advance(3 * time.Minute)
		b.wants(t, Verifier, sub, "verifier:"+w.Data+"."+answer, "human-check-failed late", "an old ticket")
		require.Equal(t, "requests to "+string(kind), stand.Asked(), 0)
	}
}

// TestClockOfSignatures: a provider that refuses the clock is no verdict about the shopper.
func TestClockOfSignatures(t *testing.T) {
	t.Parallel()
	for _, kind := range []VerifierKind{Tencent, Aliyun} {
		b, stand := withCaptcha(t, kind, Refuse)
		b.clock.advance(time.Hour)
		sub := rush(7, 42)
		b.wants(t, Verifier, sub, "verifier:"+stand.Solve(b.challenge(Verifier, sub).Verifier, false), "human-check-unavailable", string(kind))
	}
	b, stand := withCaptcha(t, GeeTest, Refuse)
	b.clock.advance(time.Hour) // gen_time is an hour old then
	sub := rush(7, 42)
	b.wants(t, Verifier, sub, "verifier:"+stand.Solve(b.challenge(Verifier, sub).Verifier, false), "human-check-failed late", "solved an hour ago")
}

// TestCodesOfVerifiers: what a client can bring about is a verdict, everything else a failure.
func TestCodesOfVerifiers(t *testing.T) {
	t.Parallel()
	for body, c := range map[string]struct {
		of   api
		want error // nil is a failure of the provider
	}{
		`{"status":"error","code":"-50000"}`:                                     {geetest{}, nil},
		`{"status":"error","code":"-50005"}`:                                     {geetest{}, errWrong},
		`{"status":"error","code":"-50103"}`:                                     {geetest{}, nil},
		`{"status":"error","code":"-50303"}`:                                     {geetest{}, errWrong},
		`{"status":"success"}`:                                                   {geetest{}, nil},
		`[]`:                                                                     {geetest{}, nil},
		`{"Response":{}}`:                                                        {tencent{}, nil},
		`{"Response":{"CaptchaCode":1,"EvilLevel":100}}`:                         {tencent{}, errWrong},
		`{"Response":{"CaptchaCode":8}}`:                                         {tencent{}, errLate},
		`{"Response":{"CaptchaCode":16}}`:                                        {tencent{}, errForeign},
		`{"Response":{"Error":{"Code":"InternalError"}}}`:                        {tencent{}, nil},
		`{"Response":{"Error":{"Code":"InvalidParameterValue"}}}`:                {tencent{}, errWrong},
		`{"Code":"Success","Result":{"VerifyResult":false,"VerifyCode":"F012"}}`: {aliyun{}, errForeign},
		`{"Code":"Success","Result":{"VerifyResult":false,"VerifyCode":"F019"}}`: {aliyun{}, errLate},
		`{"Code":"Success","Result":{"VerifyResult":false,"VerifyCode":"F006"}}`: {aliyun{}, nil},
		`{"Code":"InvalidParameter","Message":"CaptchaVerifyParam"}`:             {aliyun{}, errWrong},
		`{"Code":"Throttling.User","Result":{"VerifyResult":true}}`:              {aliyun{}, nil},
		`{"Code":"Success"}`:                                                     {aliyun{}, nil},
	} {
		v, err := c.of.read(outbound.Reply{Status: http.StatusOK, Body: []byte(body)})
		if (err != nil) != (c.want == nil) || err == nil && v.no != c.want { //nolint:errorlint // identity is meant
			t.Errorf("%s: %v, %v", body, v.no, err)
		}
	}
}

// FuzzAnswer searches for tokens that are wrongly accepted, and for crashes.
func FuzzAnswer(f *testing.F) {
	w := &VerifierWidget{Data: strings.Repeat("A", ticketTextBytes)}
	f.Add("verifier:" + pack(w, geetestAnswer{"a", "b", "c", "1700000000"}))
	f.Add("verifier:" + pack(w, tencentAnswer{"a", "b"}))
	f.Add("verifier:" + pack(w, aliyunAnswer{"a"}))
	f.Add("verifier:" + w.Data + ".")
	f.Add("verifier:" + w.Data)
	kinds := map[VerifierKind]struct {
		api
		members []string
	}{
		GeeTest: {geetest{}, []string{"lot_number", "captcha_output", "pass_token", "gen_time"}},
		Tencent: {tencent{}, []string{"ticket", "randstr"}},
		Aliyun:  {aliyun{}, []string{"captcha_verify_param"}},
	}
	f.Fuzz(func(t *testing.T, text string) {
		sol, err := parse(text, true)
		if err != nil || sol.kind != Verifier {
			return
		}
		if text != "verifier:"+sol.ticket+"."+sol.token || len(sol.ticket) != ticketTextBytes || len(text) > MaxSolutionBytes {
			t.Fatalf("%q parses as %+v", text, sol)
		}
		raw, err := answerEncoding.DecodeString(sol.token)
		for kind, k := range kinds {
			q, bad := k.ask(sol.token, rush(1, 1).Address)
			if bad != nil {
				continue
			}
			var given map[string]any
			if err != nil || json.Unmarshal(raw, &given) != nil || len(given) < len(k.members) || q.once == "" || len(q.Body) == 0 {
				t.Fatalf("%s accepts %q", kind, raw)
			}
		}
	})
}

// TestWidgetsOfTheKinds: the shop's pages may load what a challenge names, and nothing else.
func TestWidgetsOfTheKinds(t *testing.T) {
	t.Parallel()
	for kind, host := range map[VerifierKind]string{Siteverify: "", GeeTest: "geetest.com", Tencent: "captcha.qcloud.com", Aliyun: "o.alicdn.com"} {
		b, _ := withCaptcha(t, kind, Refuse)
		w, other := b.challenge(Verifier, rush(7, 42)).Verifier, b.ThirdParty()
		if (w.Script == "") != (host == "") || !strings.Contains(w.Script, host) || !strings.Contains(other.Scripts, host) || (other.Scripts == "") != (host == "") {
			t.Errorf("%s: %+v, %+v", kind, w, other)
		}
		require.Equal(t, "region of "+string(kind), w.Region, map[VerifierKind]string{Aliyun: "cn"}[kind])
	}
	cloudflare := func(c *Config, _ *Deps) { c.VerifierURL = "https://challenges.cloudflare.com/turnstile/v0/siteverify" }
	b, _ := withCaptcha(t, Siteverify, Refuse, cloudflare)
	require.Contains(t, "Turnstile's script", b.challenge(Verifier, rush(7, 42)).Verifier.Script, "https://challenges.cloudflare.com/")
	abroad, _ := withCaptcha(t, Aliyun, Refuse, func(c *Config, _ *Deps) { c.VerifierURL = "https://captcha.ap-southeast-1.aliyuncs.com" })
	require.Equal(t, "region abroad", abroad.challenge(Verifier, rush(7, 42)).Verifier.Region, "sgp")
	require.Equal(t, "sources without a verifier", setup(t).ThirdParty().Scripts, "")
}
