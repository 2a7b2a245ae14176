package humancheck

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

const testHost = "sale.example.com"

// withVerifier is a bundle with a fake provider.
func withVerifier(t *testing.T, rule DownRule, change ...func(*Config, *Deps)) (*bundle, *fakeVerifier) {
	t.Helper()
	stub := &fakeVerifier{Secret: "0x4AAA"}
	srv := httptest.NewServer(stub)
	t.Cleanup(srv.Close)
	b := setup(t, append([]func(*Config, *Deps){verifierAt(srv.URL, rule)}, change...)...)
	return b, stub
}

// verifierAt sets a provider whose breaker closes quickly.
func verifierAt(url string, rule DownRule) func(*Config, *Deps) {
	return func(c *Config, _ *Deps) {
		c.Hosts, c.VerifierDown = []string{testHost}, rule
		c.VerifierURL, c.VerifierSiteKey, c.VerifierSecret = url, "1x00", "0x4AAA"
		c.VerifierTimeout, c.BreakerDelay = 10*time.Second, time.Second
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	sub := rush(7, 42)
	for name, c := range map[string]struct {
		change func(b *bundle, token *fakeToken)
		sub    Subject
		after  time.Duration // delay before it is sent
		want   string
	}{
		"as it should be":  {want: "ok"},
		"host in capitals": {change: func(_ *bundle, k *fakeToken) { k.Hostname = "Sale.Example.Com" }, want: "ok"},
		"no person":        {change: func(_ *bundle, k *fakeToken) { k.Denied = true }, want: "human-check-failed wrong"},
		"another site":     {change: func(_ *bundle, k *fakeToken) { k.Hostname = "evil.example" }, want: "human-check-failed foreign"},
		"another form":     {change: func(_ *bundle, k *fakeToken) { k.Action = PurposeLogin }, want: "human-check-failed foreign"},
		"old":              {change: func(_ *bundle, k *fakeToken) { k.At = time.Now().Add(-4 * time.Minute) }, want: "human-check-failed late"},
		"too old for them": {change: func(_ *bundle, k *fakeToken) { k.At = time.Now().Add(-time.Hour) }, want: "human-check-failed used"},
		"from the future":  {change: func(_ *bundle, k *fakeToken) { k.At = time.Now().Add(time.Hour) }, want: "human-check-failed forged"},
		"without our data": {change: func(_ *bundle, k *fakeToken) { k.Data = "" }, want: "human-check-failed forged"},
		"another's data":   {change: func(b *bundle, k *fakeToken) { k.Data = b.challenge(Verifier, rush(8, 42)).Verifier.Data }, want: "human-check-failed foreign"},
		"a work's data":    {change: func(b *bundle, k *fakeToken) { k.Data = b.challenge(Pow, sub).Challenge }, want: "human-check-failed foreign"},
		"late":             {after: 3 * time.Minute, want: "human-check-failed late"},
		"sent by another":  {sub: rush(8, 42), want: "human-check-failed foreign"},
		"for another item": {sub: rush(7, 43), want: "human-check-failed foreign"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, stub := withVerifier(t, Refuse)
			w := b.challenge(Verifier, sub).Verifier
			token := fakeToken{Hostname: testHost, Action: w.Action, Data: w.Data}
			if c.change != nil {
				c.change(b, &token)
			}
			who := c.sub
			if who.Purpose == "" {
				who = sub
			}
			text := "verifier:" + stub.Issue(token)
			b.clock.advance(c.after)
			b.wants(t, Verifier, who, text, c.want, "the check")
			require.Equal(t, "the clients that the provider got", stub.clients, []string{"203.0.113.7"})
			if c.want == "ok" {
				b.wants(t, Verifier, sub, text, "human-check-failed used", "the second use")
				// The provider accepts a second token for the same data, the shop does not.
				b.wants(t, Verifier, sub, "verifier:"+stub.Issue(token), "human-check-failed used", "another token for the same challenge")
			}
		})
	}
	b, stub := withVerifier(t, Refuse)
	b.wants(t, Verifier, sub, "verifier:made-up", "human-check-failed wrong", "a token that was never issued")
	b.wants(t, Verifier, sub, b.solve(b.challenge(Pow, sub)), "human-check-failed foreign", "an ordinary proof of work in the verifier's place")
	require.Equal(t, "the provider's requests", stub.Asked(), 1)
}

// TestAProviderThatIsDownOpensNothing covers each kind of outage under each rule.
func TestAProviderThatIsDownOpensNothing(t *testing.T) {
	t.Parallel()
	const patience = 500 * time.Millisecond
	sub := rush(7, 42)
	for name, trouble := range map[string]trouble{
		"broken": broken, "cut": cut, "hangs": hangs, "garbage": garbage, "wrong secret": locked,
	} {
		for rule, want := range map[DownRule]string{Refuse: "human-check-unavailable", StandIn: "human-check-required"} {
			t.Run(name+", "+string(rule), func(t *testing.T) {
				t.Parallel()
				b, stub := withVerifier(t, rule, func(c *Config, _ *Deps) {
					if trouble == hangs {
						c.VerifierTimeout = patience
					}
				})
				w := b.challenge(Verifier, sub).Verifier
				text := "verifier:" + stub.Issue(fakeToken{Hostname: testHost, Action: w.Action, Data: w.Data})
				stub.Be(trouble)
				began := time.Now()
				err := b.check(Verifier, sub, text)
				require.Equal(t, "the outcome", outcome(err), want)
				if took := time.Since(began); trouble == hangs && took > 3*patience {
					t.Errorf("it took %v", took)
				}
				if strings.Contains(fault.From(err).Detail[0], "0x4AAA") || strings.Contains(err.Error(), "0x4AAA") {
					t.Error("the secret is in the error")
				}
				if rule == StandIn {
					standIn(t, b, sub, fault.From(err))
				}
				require.Equal(t, "checks counted as passed by the verifier", b.count(Verifier, "passed"), 0)
				stub.Be(fine)
				if got := outcome(b.check(Verifier, sub, text)); got != "ok" && trouble != hangs {
					t.Errorf("the same token when the provider is back: %s", got)
				}
			})
		}
	}
}

// standIn solves the challenge included in a refusal on another instance, which does
// not know of the provider's outage.
func standIn(t *testing.T, b *bundle, sub Subject, f *fault.Error) {
	t.Helper()
	c, ok := f.Fields["challenge"].(Challenge)
	if !ok || c.Kind != Pow || f.Fields["kind"] != Pow {
		t.Fatalf("the replacement challenge: %v", f.Fields)
	}
	other := b.another(verifierAt("http://127.0.0.1:1/siteverify", StandIn))
	solution := b.solve(c)
	other.wants(t, Verifier, rush(8, 42), solution, "human-check-failed foreign", "another's proof in the verifier's place")
	other.wants(t, Verifier, sub, solution, "ok", "the proof in the verifier's place")
	other.wants(t, Verifier, sub, solution, "human-check-failed used", "the proof a second time")
}

// TestOpenBreakerSendsNoRequests, and closes by itself when the provider is
// back.
func TestOpenBreakerSendsNoRequests(t *testing.T) {
	t.Parallel()
	for _, rule := range []DownRule{Refuse, StandIn} {
		t.Run(string(rule), func(t *testing.T) {
			t.Parallel()
			b, stub := withVerifier(t, rule)
			sub := rush(7, 42)
			stub.Be(broken)
			for range breakerFailures {
				_ = b.check(Verifier, sub, "verifier:token") // TestAProviderThatIsDownOpensNothing checks the answers
			}
			asked := stub.Asked()
			_ = b.check(Verifier, sub, "verifier:token")
			require.Equal(t, "the provider's requests with an open breaker", stub.Asked(), asked)
			c, err := b.Challenge(t.Context(), Verifier, sub)
			switch {
			case rule == Refuse && outcome(err) != "human-check-unavailable":
				t.Errorf("a challenge: %v", err)
			case rule == StandIn && (err != nil || c.Kind != Pow):
				t.Errorf("a challenge: %+v, %v", c, err)
			case rule == StandIn:
				b.wants(t, Verifier, sub, b.solve(c), "ok", "the replacement proof of work")
			}
			stub.Be(fine)
			pgtest.Eventually(t, 30*time.Second, b.verifier.Available, "the breaker has closed")
			w := b.challenge(Verifier, sub).Verifier
			if w == nil {
				t.Fatal("no widget when the provider is back")
			}
			text := "verifier:" + stub.Issue(fakeToken{Hostname: testHost, Action: w.Action, Data: w.Data})
			b.wants(t, Verifier, sub, text, "ok", "a token when the provider is back")
		})
	}
}

// TestAClientThatLeavesIsNoOutage: clients that close connections must not open the
// breaker.
func TestAClientThatLeavesIsNoOutage(t *testing.T) {
	t.Parallel()
	b, stub := withVerifier(t, StandIn)
	stub.Be(hangs)
	for range 2 * breakerFailures {
		ctx, leave := context.WithCancel(t.Context())
		asked := stub.Asked()
		done := make(chan error)
		go func() { done <- b.Check(ctx, Verifier, rush(7, 42), "verifier:token") }()
		pgtest.Eventually(t, 30*time.Second, func() bool { return stub.Asked() > asked }, "the provider got the request")
		leave()
		require.Equal(t, "the outcome for a client that left", outcome(<-done), "human-check-unavailable")
	}
	require.Equal(t, "the provider is asked after clients left", b.verifier.Available(), true)
}

func TestWithoutAVerifierNobodyPasses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	sub := rush(7, 42)
	if b.Offers(Verifier) || !b.Offers(Slide) || b.Stronger() != Slide {
		t.Error("a verifier is offered")
	}
	for _, text := range []string{"", "verifier:token"} {
		b.wants(t, Verifier, sub, text, "human-check-unavailable", fmt.Sprintf("%q", text))
	}
	with, _ := withVerifier(t, Refuse)
	require.Equal(t, "the stronger check", with.Stronger(), Verifier)
}

// TestBusyVerifierPassesNoCheck: the maximum number of requests is in flight.
func TestBusyVerifierPassesNoCheck(t *testing.T) {
	t.Parallel()
	b, stub := withVerifier(t, StandIn)
	for range maxQuestions {
		b.verifier.slots <- struct{}{}
	}
	if got := outcome(b.check(Verifier, rush(7, 42), "verifier:token")); got != "human-check-unavailable" || stub.Asked() != 0 {
		t.Errorf("%s after %d requests", got, stub.Asked())
	}
}
