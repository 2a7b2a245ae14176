package humancheck

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"image"
	_ "image/png"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// slideAt makes a slide with a known answer, without drawing one.
func (b *bundle) slideAt(sub Subject, answer int) (ticket string) {
	b.t.Helper()
	t := b.ticket(formSlide)
	require.NoError(b.t, b.keep(b.t.Context(), &t, answer))
	b.clock.advance(3 * time.Second)
	return b.keys.sign(t, sub)
}

// slid solves a slide with a drag as people make them: slow, fast, slow.
func slid(ticket string, x int) string {
	moves := make([]string, 20)
	for i := range moves {
		part := float64(i) / float64(len(moves)-1)
		moves[i] = fmt.Sprintf("%d,%.0f", 40*i, float64(x)*part*part*(3-2*part))
	}
	return "slide:" + ticket + "." + strconv.Itoa(x) + "." + strings.Join(moves, ";")
}

func TestSlides(t *testing.T) {
	t.Parallel()
	sub := rush(7, 42)
	for name, c := range map[string]struct {
		off  int
		late time.Duration
		sub  Subject
		want string
	}{
		"exactly":                  {want: "ok"},
		"at the tolerance":         {off: 4, want: "ok"},
		"at the tolerance, before": {off: -4, want: "ok"},
		"beyond":                   {off: 5, want: "human-check-failed wrong"},
		"before":                   {off: -5, want: "human-check-failed wrong"},
		"far beyond":               {off: 30_000, want: "human-check-failed wrong"},
		"late":                     {late: 3 * time.Minute, want: "human-check-failed late"},
		"another user":             {sub: rush(8, 42), want: "human-check-failed foreign"},
		"another item":             {sub: rush(7, 43), want: "human-check-failed foreign"},
		"another purpose":          {sub: Subject{Purpose: PurposeReservation, User: 7, Item: 42}, want: "human-check-failed foreign"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			ticket := b.slideAt(sub, 130)
			b.clock.advance(c.late)
			who := c.sub
			if who.Purpose == "" {
				who = sub
			}
			b.wants(t, Slide, who, slid(ticket, 130+c.off), c.want, "the check")
		})
	}
}

// TestASlideHasOneTry: right or wrong. TestOneOfHundredParallelUsesPasses tries side by side what marks it.
func TestASlideHasOneTry(t *testing.T) {
	t.Parallel()
	b := setup(t)
	sub := rush(7, 42)
	for _, first := range []int{130, 200} {
		ticket := b.slideAt(sub, 130)
		_ = b.check(Slide, sub, slid(ticket, first)) // TestSlides checks this answer
		b.wants(t, Slide, sub, slid(ticket, 130), "human-check-failed used", fmt.Sprintf("after %d", first))
	}
}

// TestDrags: a slide is refused when its tile cannot have been dragged by a person,
// and answers that are sent again later show that this costs the one try.
func TestDrags(t *testing.T) {
	t.Parallel()
	sub, b := rush(7, 42), setup(t)
	for name, c := range map[string]struct{ drag, want string }{
		"none":            {"", "drag"},
		"empty":           {".", "malformed"},
		"no pairs":        {".1;2;3", "malformed"},
		"back in time":    {".0,1;200,4;100,9;400,60;500,130", "malformed"},
		"negative":        {".0,-1;200,4;300,9;400,60;500,130", "malformed"},
		"too long":        {"." + strings.Repeat("0,1;", maxMoves) + "500,130", "malformed"},
		"four moves":      {".0,1;200,4;400,60;500,130", "drag"},
		"in 100 ms":       {".0,1;20,4;40,9;60,60;100,130", "drag"},
		"linear":          {".0,10;100,40;200,70;300,100;400,130", "drag"},
		"to another x":    {".0,1;200,4;300,9;400,60;500,129", "drag"},
		"before it began": {".0,1;200,4;300,9;400,60;3500,130", "drag"},
		"by hand":         {".0,1;200,4;300,9;400,60;500,130", "ok"},
		"with the keys":   {".0,12;500,13;533,14;566,15;600,16;640,130", "ok"},
	} {
		t.Run(name, func(t *testing.T) { // one clock and one record
			b.redis.FlushDB(t.Context())
			ticket := b.slideAt(sub, 130)
			got := strings.TrimPrefix(outcome(b.check(Slide, sub, "slide:"+ticket+".130"+c.drag)), "human-check-failed ")
			require.Equal(t, "the outcome", got, c.want)
			if c.want == "drag" {
				b.wants(t, Slide, sub, slid(ticket, 130), "human-check-failed used", "and then")
			}
		})
	}
}

// TestFailuresNarrowTheTolerance of a user, for a while and not below what people
// manage; other users and addresses keep theirs.
func TestFailuresNarrowTheTolerance(t *testing.T) {
	t.Parallel()
	b := setup(t)
	off := func(sub Subject, off int) string {
		return outcome(b.check(Slide, sub, slid(b.slideAt(sub, 130), 130+off)))
	}
	sub := rush(7, 42)
	for i, want := range []struct{ off, beyond int }{{4, 5}, {3, 4}, {2, 3}, {2, 3}} {
		require.Equal(t, fmt.Sprintf("%d off after %d failures", want.off, i), off(sub, want.off), "ok")
		require.Equal(t, fmt.Sprintf("%d off after %d failures", want.beyond, i), off(sub, want.beyond), "human-check-failed wrong")
	}
	for _, other := range []Subject{rush(8, 42), guest(PurposeLogin, "203.0.113.7")} {
		require.Equal(t, fmt.Sprintf("%+v", other), off(other, 4), "ok")
	}
	if left := b.redis.TTL(t.Context(), failedKey(sub)).Val(); left <= 0 || left > failuresKept {
		t.Errorf("the failures are kept for %s", left)
	}
}

// TestPictures draws some and checks them as a client would.
func TestPictures(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.run()
	require.Equal(t, "misses before the first request", testutil.ToFloat64(b.album.misses), 0)
	sub := rush(7, 42)
	seen := map[string]bool{}
	for range 2 { // more than the stock
		c := b.challenge(Slide, sub)
		p := c.Slide
		if c.Kind != Slide || p == nil {
			t.Fatalf("challenge %+v", c)
		}
		if seen[p.Background] {
			t.Error("a picture was handed out twice")
		}
		seen[p.Background] = true
		background, tile := decoded(t, p.Background, "image/jpeg").Bounds(), decoded(t, p.Tile, "image/png").Bounds()
		if background.Dx() != p.Width || background.Dy() != p.Height || tile.Dx() != p.TileWidth || tile.Dy() != p.TileHeight {
			t.Errorf("sizes %v and %v, announced as %+v", background, tile, *p)
		}
		text, err := b.redis.Get(t.Context(), b.stored()[0]).Result()
		require.NoError(t, err)
		x, err := strconv.Atoi(text)
		if err != nil || x <= p.TileX+p.TileWidth/2 || x > p.Width-p.TileWidth {
			t.Errorf("the tile starts at %d, its gap is at %q of %d", p.TileX, text, p.Width)
		}
		b.clock.advance(3 * time.Second)
		b.wants(t, Slide, sub, slid(c.Challenge, x), "ok", "the right answer")
	}
	if n := testutil.ToFloat64(b.album.misses); n < 1 {
		t.Error("the first shopper's wait is not counted")
	}
	pgtest.Eventually(t, time.Minute, func() bool { return len(b.album.ready) == cap(b.album.ready) }, "the stock is full again")
}

// decoded reads the picture in a data: URI.
func decoded(t *testing.T, uri, mime string) image.Image {
	t.Helper()
	text, ok := strings.CutPrefix(uri, "data:"+mime+";base64,")
	if !ok {
		t.Fatalf("%.40s… is not %s", uri, mime)
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	if len(raw) > maxImageBytes {
		t.Errorf("%d bytes", len(raw))
	}
	img, _, err := image.Decode(bytes.NewReader(raw))
	require.NoError(t, err)
	return img
}

func TestPrepareDrawsAhead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.run()
	b.Prepare()
	b.Prepare()
	pgtest.Eventually(t, time.Minute, func() bool { return len(b.album.ready) == cap(b.album.ready) }, "the stock is full")
	b.challenge(Slide, rush(7, 42))
	require.Equal(t, "shoppers who had to wait", testutil.ToFloat64(b.album.misses), 0)
}

// TestEmptyStockPassesNoCheck: no worker draws in this test.
func TestEmptyStockPassesNoCheck(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Challenge(ctx, Slide, rush(7, 42)); outcome(err) != "human-check-unavailable" {
		t.Errorf("Challenge = %v", err)
	}
	if got := b.stored(); len(got) != 0 {
		t.Errorf("stored %v", got)
	}
}
