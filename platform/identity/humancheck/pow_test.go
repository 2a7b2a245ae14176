package humancheck

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/workshop/require"
)

func TestProofOfWork(t *testing.T) {
	t.Parallel()
	b := setup(t)
	sub := rush(7, 42)
	c := b.challenge(Pow, sub)
	if c.Kind != Pow || c.Difficulty != MinDifficulty || len(c.Challenge) != ticketTextBytes || c.ExpiresAt == "" {
		t.Fatalf("challenge %+v", c)
	}
	if got := b.stored(); len(got) != 0 {
		t.Errorf("handing out a proof of work stored %v", got)
	}
	b.wants(t, Pow, sub, b.solve(c), "ok", "the first use")
	require.Equal(t, "checks counted as passed", b.count(Pow, "passed"), 1)
}

// altered changes one byte of a ticket's payload and keeps its signature.
func altered(at int, to byte) func(b *bundle, one, _ string) string {
	return func(b *bundle, one, _ string) string {
		ticket, number := parts(b.t, one)
		raw, err := base64.RawURLEncoding.DecodeString(ticket)
		require.NoError(b.t, err)
		raw[at] = to
		return "pow:" + base64.RawURLEncoding.EncodeToString(raw) + "." + number
	}
}

// TestBadProofsAreRefused has one row per attack. Only the replay may reach Redis.
func TestBadProofsAreRefused(t *testing.T) {
	t.Parallel()
	sub := rush(7, 42)
	for name, c := range map[string]struct {
		// cheat builds the sent text from two unused valid solutions.
		cheat func(b *bundle, one, two string) string
		sub   Subject // who sends it; the zero value is the owner
		want  string
	}{
		"altered number": {cheat: func(b *bundle, one, _ string) string {
			ticket, _ := parts(b.t, one)
			for n := 0; ; n++ { // the first number that misses it by one bit
				if text := ticket + "." + strconv.Itoa(n); zeroBits([]byte(text)) == MinDifficulty-1 {
					return "pow:" + text
				}
			}
		}, want: "human-check-failed weak"},
		"number of another": {cheat: func(b *bundle, one, two string) string {
			ticket, _ := parts(b.t, one)
			_, number := parts(b.t, two)
			for zeroBits([]byte(ticket+"."+number)) >= MinDifficulty { // once in 256 it solves both
				_, number = parts(b.t, b.solve(b.challenge(Pow, sub)))
			}
			return "pow:" + ticket + "." + number
		}, want: "human-check-failed weak"},
		"payload of one, signature of another": {cheat: func(b *bundle, one, two string) string {
			a, _ := parts(b.t, one)
			z, _ := parts(b.t, two)
			cut := ticketMACAt / 3 * 4
			return b.solve(Challenge{Kind: Pow, Challenge: a[:cut] + z[cut:], Difficulty: MinDifficulty})
		}, want: "human-check-failed forged"},
		"difficulty lowered": {cheat: altered(4, 0), want: "human-check-failed forged"},
		"user altered":       {cheat: altered(12, 8), sub: rush(8, 42), want: "human-check-failed forged"},
		"expiry altered": {cheat: func(b *bundle, one, _ string) string {
			b.clock.advance(3 * time.Minute)
			return altered(51, 0x40)(b, one, "")
		}, want: "human-check-failed forged"},
		"version altered": {cheat: altered(0, 2), want: "human-check-failed forged"},
		"late": {cheat: func(b *bundle, one, _ string) string {
			b.clock.advance(challengeLifetime + time.Second)
			return one
		}, want: "human-check-failed late"},
		"another user":    {cheat: first, sub: rush(8, 42), want: "human-check-failed foreign"},
		"another item":    {cheat: first, sub: rush(7, 43), want: "human-check-failed foreign"},
		"another purpose": {cheat: first, sub: Subject{Purpose: PurposeReservation, User: 7, Item: 42}, want: "human-check-failed foreign"},
		"another key": {cheat: func(b *bundle, _, _ string) string {
			o := b.another(func(_ *Config, d *Deps) { d.SigningKeys = [][]byte{[]byte("another key of another shop, 32+")} })
			return o.solve(o.challenge(Pow, sub))
		}, want: "human-check-failed forged"},
		"a slide's ticket": {cheat: func(b *bundle, _, _ string) string {
			return b.solve(Challenge{Kind: Pow, Challenge: b.keys.sign(b.ticket(formSlide), sub), Difficulty: MinDifficulty})
		}, want: "human-check-failed foreign"},
		"a stand-in's ticket": {cheat: func(b *bundle, _, _ string) string {
			return b.solve(b.work(formStandIn, sub))
		}, want: "human-check-failed foreign"},
		"a slide":                {cheat: func(_ *bundle, one, _ string) string { return "slide" + strings.TrimPrefix(one, "pow") }, want: "human-check-required"},
		"a token":                {cheat: func(*bundle, string, string) string { return "verifier:token" }, want: "human-check-required"},
		"nothing":                {cheat: func(*bundle, string, string) string { return "" }, want: "human-check-required"},
		"noise":                  {cheat: func(*bundle, string, string) string { return "noise" }, want: "human-check-failed malformed"},
		"sign before the number": {cheat: func(_ *bundle, one, _ string) string { return strings.Replace(one, ".", ".+", 1) }, want: "human-check-failed malformed"},
		"leading zero":           {cheat: func(_ *bundle, one, _ string) string { return strings.Replace(one, ".", ".0", 1) }, want: "human-check-failed malformed"},
		"too long a number":      {cheat: func(_ *bundle, one, _ string) string { return one + strings.Repeat("1", 17) }, want: "human-check-failed malformed"},
		"padding":                {cheat: func(_ *bundle, one, _ string) string { return strings.Replace(one, ".", "=.", 1) }, want: "human-check-failed malformed"},
		"too long": {cheat: func(*bundle, string, string) string {
			return "verifier:" + strings.Repeat("x", MaxSolutionBytes)
		}, want: "human-check-failed malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			one, two := b.solve(b.challenge(Pow, sub)), b.solve(b.challenge(Pow, sub))
			sent := c.cheat(b, one, two)
			who := c.sub
			if who.Purpose == "" {
				who = sub
			}
			b.wants(t, Pow, who, sent, c.want, "the check")
			if got := b.stored(); len(got) != 0 {
				t.Errorf("Redis stored %v", got)
			}
			require.Equal(t, "checks counted as passed", b.count(Pow, "passed"), 0)
		})
	}
}

func first(_ *bundle, one, _ string) string { return one }

func TestReplayIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	sub := rush(7, 42)
	solution := b.solve(b.challenge(Pow, sub))
	require.NoError(t, b.check(Pow, sub, solution))
	other := b.another()
	for _, i := range []*bundle{b, other} {
		i.wants(t, Pow, sub, solution, "human-check-failed used", "the second use")
	}
	// Another number that solves the same ticket counts as the same solution.
	ticket, number := parts(t, solution)
	n, err := strconv.Atoi(number)
	require.NoError(t, err)
	for n++; zeroBits([]byte(ticket+"."+strconv.Itoa(n))) < MinDifficulty; n++ {
	}
	b.wants(t, Pow, sub, "pow:"+ticket+"."+strconv.Itoa(n), "human-check-failed used", "another number for the same ticket")
	// It is remembered for as long as it would be valid, plus the clock error.
	ttl, err := b.redis.PTTL(t.Context(), b.stored()[0]).Result()
	if err != nil || ttl < challengeLifetime || ttl > challengeLifetime+maxClockGap {
		t.Errorf("kept for %v, %v", ttl, err)
	}
}

func TestOneOfHundredParallelUsesPasses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	instances := []*bundle{b, b.another()}
	sub := rush(7, 42)
	solution := b.solve(b.challenge(Pow, sub))
	var passed, used atomic.Int64
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			switch outcome(instances[i%2].check(Pow, sub, solution)) {
			case "ok":
				passed.Add(1)
			case "human-check-failed used":
				used.Add(1)
			}
		})
	}
	all.Wait()
	require.Equal(t, "uses of 100 that passed, and that were refused as used", [2]int64{passed.Load(), used.Load()}, [2]int64{1, 99})
}

// TestGuestsAreBoundToTheirAddress: before a login only the address identifies a
// client, and for IPv6 the /64 that a household shares.
func TestGuestsAreBoundToTheirAddress(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, c := range []struct{ made, sent, want string }{
		{"203.0.113.7", "203.0.113.7", "ok"},
		{"203.0.113.7", "203.0.113.8", "human-check-failed foreign"},
		{"2001:db8:1:2::1", "2001:db8:1:2:ffff::9", "ok"},
		{"2001:db8:1:2::1", "2001:db8:1:3::1", "human-check-failed foreign"},
	} {
		solution := b.solve(b.challenge(Pow, guest(PurposeLogin, c.made)))
		b.wants(t, Pow, guest(PurposeLogin, c.sent), solution, c.want, fmt.Sprintf("made for %s, sent from %s", c.made, c.sent))
	}
	sub := rush(7, 42)
	solution := b.solve(b.challenge(Pow, sub))
	moved := sub
	moved.Address = guest(PurposeRush, "198.51.100.1").Address
	b.wants(t, Pow, moved, solution, "ok", "a phone on another network")
}

func TestKeysRotate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	next := []byte("the next signing key, of 32 bytes")
	sub := rush(7, 42)
	before := b.another(func(_ *Config, d *Deps) { d.SigningKeys = [][]byte{testKey, next} })
	after := b.another(func(_ *Config, d *Deps) { d.SigningKeys = [][]byte{next, testKey} })
	done := b.another(func(_ *Config, d *Deps) { d.SigningKeys = [][]byte{next} })
	for _, c := range []struct {
		name     string
		from, to *bundle
		want     string
	}{
		{"old to new", before, after, "ok"},
		{"new to old", after, before, "ok"},
		{"new to done", after, done, "ok"},
		{"old to done", before, done, "human-check-failed forged"},
	} {
		c.to.wants(t, Pow, sub, c.from.solve(c.from.challenge(Pow, sub)), c.want, c.name)
		there := guest(PurposeSMS, "::1")
		c.to.wants(t, Pow, there, c.from.solve(c.from.challenge(Pow, there)), c.want, c.name+", for a guest")
	}
}

// TestRequiredSaysWhatToDo: the refusal has everything that a client needs.
func TestRequiredSaysWhatToDo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, c := range []struct {
		kind Kind
		sub  Subject
		url  string
	}{
		{Pow, rush(7, 42), "/api/v1/things/42/challenge?purpose=rush&kind=pow"},
		{Slide, rush(7, 42), "/api/v1/things/42/challenge?purpose=rush&kind=slide"},
		{Pow, guest(PurposeSMS, "203.0.113.7"), "/api/v1/challenge?purpose=sms"},
	} {
		f := fault.From(b.check(c.kind, c.sub, ""))
		if !errors.Is(f, ErrRequired) || f.Fields["kind"] != c.kind || f.Fields["challenge_url"] != c.url {
			t.Errorf("%s: %v %v", c.kind, f, f.Fields)
		}
		challenge, has := f.Fields["challenge"].(Challenge)
		require.Equal(t, string(c.kind)+": a challenge is included", has, c.kind == Pow)
		if has {
			b.wants(t, c.kind, c.sub, b.solve(challenge), "ok", "the included challenge")
		}
	}
}

func TestNothingPassesWithoutRedis(t *testing.T) {
	t.Parallel()
	b := setup(t)
	sub := rush(7, 42)
	away := b.another(func(_ *Config, d *Deps) { d.Redis = dead(t) })
	away.wants(t, Pow, sub, b.solve(b.challenge(Pow, sub)), "human-check-unavailable", "proof of work")
	away.wants(t, Slide, sub, "slide:"+b.keys.sign(b.ticket(formSlide), sub)+".100", "human-check-unavailable", "slide")
	away.run()
	if _, err := away.Challenge(t.Context(), Slide, sub); outcome(err) != "human-check-unavailable" {
		t.Errorf("a slide whose answer cannot be kept: %v", err)
	}
	// Other errors are reported without Redis.
	away.wants(t, Pow, rush(8, 42), b.solve(b.challenge(Pow, sub)), "human-check-failed foreign", "a foreign proof")
}

func TestNoneAsksNothing(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *Config, d *Deps) { d.Redis = dead(t) })
	for _, k := range []Kind{None, ""} {
		b.wants(t, k, rush(7, 42), "", "ok", fmt.Sprintf("%q", k))
	}
	require.Equal(t, "an unknown kind", fault.From(b.check("magic", rush(7, 42), "")).Kind, fault.Internal)
	require.Equal(t, "an unknown purpose", fault.From(b.check(Pow, Subject{Purpose: "fun"}, "")).Kind, fault.Internal)
}

func TestSolveEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config, _ *Deps) { c.Difficulty = MaxDifficulty })
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errTest)
	c := b.challenge(Pow, rush(7, 42))
	if _, err := Solve(ctx, c.Challenge, c.Difficulty); !errors.Is(err, context.Canceled) {
		t.Errorf("Solve = %v", err)
	}
	if _, err := Solve(t.Context(), c.Challenge, MaxDifficulty+1); err == nil {
		t.Error("a difficulty above the maximum was tried")
	}
}

// TestLevelsOfWork: a level changes the work by bits, within bounds, and a challenge
// more than one bit easier than the level of the moment is refused with a new one.
func TestLevelsOfWork(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config, _ *Deps) { c.Difficulty = 12 })
	at := func(level int) Subject {
		sub := guest(PurposeSMS, "203.0.113.7")
		sub.Level = level
		return sub
	}
	for level, want := range map[int]int{-9: 10, Easy: 10, 0: 12, 1: 13, Hardest: 14, 9: 14} {
		require.Equal(t, fmt.Sprint("the difficulty at level ", level), b.challenge(Pow, at(level)).Difficulty, want)
	}
	for risen, want := range map[int]string{Easy: "ok", Easy + 1: "ok", Easy + 2: "human-check-failed weak", Hardest: "human-check-failed weak"} {
		err := b.check(Pow, at(risen), b.solve(b.challenge(Pow, at(Easy))))
		if got := outcome(err); got != want {
			t.Errorf("easy work at level %d: %s, want %s", risen, got, want)
			continue
		}
		if err == nil {
			continue
		}
		next, ok := fault.From(err).Fields["challenge"].(Challenge)
		if !ok || outcome(b.check(Pow, at(risen), b.solve(next))) != "ok" {
			t.Errorf("the challenge in the answer at level %d: %+v", risen, next)
		}
	}
	b.wants(t, Pow, at(Easy), b.solve(b.challenge(Pow, at(Hardest))), "ok", "hard work after the level fell")
}
