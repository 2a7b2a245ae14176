package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"stampede/platform/loadgen/wire"
)

// rushTarget is what stands before a path in the URL.
const rushTarget = "/api/v1/rush/"

// oneUnit is the body of a request for a path.
var oneUnit = []byte(`{"quantity":1}`)

// Paths is POST items/{id}/rush-path, each by another shopper with a token of
// their own. The floor answers a path to everybody and looks at nothing, not
// even at the token.
func Paths() Stage {
	return Stage{
		Name: "paths", Unit: "paths", AtLeast: 20_000, Clients: true, Probe: 2000, Most: 200_000,
		Ours:    "rush paths issued, each with an access token",
		Floor:   "a bare net/http handler with the same answer",
		Figures: []Figure{{Name: figureMedian, Unit: "ms"}, {Name: figureP99, Unit: "ms"}},
		Open:    openPaths,
	}
}

func openPaths(ctx context.Context, rig *Rig) (floor, ours Side, closeSides func(context.Context) error, err error) {
	s, err := rig.Server(ctx)
	if err != nil {
		return floor, ours, nil, err
	}
	item, err := s.Endless(ctx)
	if err != nil {
		return floor, ours, nil, err
	}
	crowd := &crowd{rig: rig}
	if err := crowd.gather(1); err != nil {
		return floor, ours, nil, err
	}
	target := pathTarget(item)
	said, err := capture(ctx, s, target, crowd.tokens[0], bytes.NewReader(oneUnit))
	if err != nil {
		return floor, ours, nil, err
	}
	if said.Status != http.StatusOK {
		return floor, ours, nil, fmt.Errorf("a request for a path answers %d: %s", said.Status, said.Body)
	}
	return besideBare(ctx, rig, s, said, fewConns, play{
		request: func(b []byte, i int) []byte {
			return wire.AppendRequest(b, http.MethodPost, s.Addr, target, crowd.tokens[i], oneUnit)
		},
		answer: wants(http.StatusOK),
	}, func(_ context.Context, n int) error { return crowd.gather(n) })
}

func pathTarget(item int64) string {
	return "/api/v1/items/" + strconv.FormatInt(item, 10) + "/rush-path"
}

// crowd is shoppers with their tokens.
type crowd struct {
	rig    *Rig
	tokens []string
}

// gather replaces the crowd by n shoppers who have not been there before.
func (c *crowd) gather(n int) error {
	first := c.rig.Users(n)
	c.tokens = c.tokens[:0]
	for i := range int64(n) {
		token, err := c.rig.Token(first + i)
		if err != nil {
			return err
		}
		c.tokens = append(c.tokens, token)
	}
	return nil
}

// pathChars and numberChars are the lengths of a path and of an order number.
const (
	pathChars   = 86
	numberChars = 32
)

// attempt is a shopper's path and number.
type attempt struct {
	path   [pathChars]byte
	number [numberChars]byte
}

// paths are attempts that have been fetched and wait to be sent.
type paths struct {
	server  *Server
	item    int64
	crowd   crowd
	all     []attempt
	fetched time.Time
}

func (p *paths) path(i int) string { return string(p.all[i].path[:]) }

// fetch gets a path for each of n new shoppers.
func (p *paths) fetch(ctx context.Context, n int) error {
	p.crowd.rig = p.server.rig
	if err := p.crowd.gather(n); err != nil {
		return err
	}
	c, err := dial(p.server.Addr, min(fewConns, n))
	if err != nil {
		return err
	}
	defer c.close()
	p.all, p.fetched = make([]attempt, n), time.Now()
	target := pathTarget(p.item)
	_, err = c.drive(ctx, n, play{
		request: func(b []byte, i int) []byte {
			return wire.AppendRequest(b, http.MethodPost, p.server.Addr, target, p.crowd.tokens[i], oneUnit)
		},
		answer: func(i, _ int, resp *wire.Response) error {
			if resp.Status != http.StatusOK {
				return unexpected(resp, http.StatusOK)
			}
			a := &p.all[i]
			return errors.Join(member(resp.Body, "path", a.path[:]), member(resp.Body, "order_no", a.number[:]))
		},
	})
	if err != nil {
		return fmt.Errorf("fetch %d paths: %w", n, err)
	}
	return nil
}

// member copies the value of a string member that has no escapes and the length
// of into. The documents are the server's own, and there are tens of thousands.
func member(doc []byte, name string, into []byte) error {
	_, rest, found := bytes.Cut(doc, []byte(`"`+name+`":"`))
	if !found || len(rest) <= len(into) || rest[len(into)] != '"' {
		return fmt.Errorf("no %q of %d characters in %s", name, len(into), strings.TrimSpace(string(doc)))
	}
	copy(into, rest)
	return nil
}
