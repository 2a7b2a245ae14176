package door

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/loadgen"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/shop"
)

// got is the result of an attempt.
type got struct {
	httpxtest.Answer                      // none with the status 0
	closed           websocket.StatusCode // close code of a socket
}

func (g got) String() string {
	if g.closed != 0 {
		return fmt.Sprintf("closed %d", g.closed)
	}
	code := ""
	if g.Header.Get("Content-Type") == httpx.ProblemContentType {
		code = g.Text("code")
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", g.Status, code))
}

// frontDoor is a server in the middle of a sale with a planted value in every
// secret setting, and an unpaid order of A.
type frontDoor struct {
	*shop.Instance
	db      *pgxpool.Pool
	plants  plants
	phones  *shop.SMSGateway
	sale    loadgen.Planned
	users   int64  // the last shopper
	a       string // A's token
	no      string // A's order
	path    string // the rush path that A has used
	twin    int64  // another user in A's bucket
	session string // the access token of the account's open login
	told    []string
}

func openDoor(t *testing.T) *frontDoor {
	t.Helper()
	d := &frontDoor{db: pgtest.DB(t), users: 9200, phones: shop.NewSMSGateway(t)}
	databaseURL, redisURL := d.db.Config().ConnString(), pgtest.RedisURL(t)
	d.plants = plant(t, databaseURL, redisURL, d.phones.Server.URL)
	d.Instance = shop.Serve(t, databaseURL, redisURL, append(d.plants.args, "--log-level=debug", "--paths-per-minute=0", "--auth-human-check=none")...)
	d.sale = d.Plan(t, 30, 500*time.Millisecond)
	const userA = 9001
	d.a = d.mint(t, userA, auth.Shopper)
	for d.twin = userA + 1; ids.Bucket(d.twin) != ids.Bucket(userA); d.twin++ {
	}
	buyer := shop.Buyer{In: d.Instance, Token: d.a}
	pgtest.Eventually(t, 30*time.Second, func() bool {
		d.no, d.path = buyer.Path(t, d.sale.ItemID)
		return d.Send(t, d.path) == ""
	}, "A to be granted a unit")
	d.told = append(d.told, d.path)
	buyer.AwaitStatus(t, d.no, "pending_payment", 10*time.Second)
	return d
}

// mint signs a token that must not appear in any log.
func (d *frontDoor) mint(t *testing.T, user int64, role auth.Role) string {
	t.Helper()
	token := shop.Mint(t, user, role)
	d.told = append(d.told, token)
	return token
}

// shopper returns the token of a user who has not bought yet.
func (d *frontDoor) shopper(t *testing.T) string {
	t.Helper()
	d.users++
	for ids.Bucket(d.users) == ids.Bucket(d.twin) {
		d.users++
	}
	return d.mint(t, d.users, auth.Shopper)
}

func (d *frontDoor) get(path, token string, headers ...string) func(*testing.T) got {
	return d.ask(http.MethodGet, path, token, "", headers...)
}

func (d *frontDoor) post(path, token, body string, headers ...string) func(*testing.T) got {
	return d.ask(http.MethodPost, path, token, body, headers...)
}

// ask returns a request that is sent when its row runs.
func (d *frontDoor) ask(method, path, token, body string, headers ...string) func(*testing.T) got {
	return func(t *testing.T) got {
		t.Helper()
		return got{Answer: shop.Exchange(t, method, d.URL+path, token, body, headers...)}
	}
}

// dial opens a socket and reports the outcome: refused with a status, closed
// with a code, or open, which is status 101. It sends says, if not empty, once
// the socket is open.
func (d *frontDoor) dial(opts websocket.DialOptions, says string, keep *[]*websocket.Conn) func(*testing.T) got {
	return func(t *testing.T) got {
		t.Helper()
		conn, resp, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(d.URL, "http")+"/api/v1/ws", &opts)
		if err != nil {
			g := got{}
			if resp != nil {
				raw, _ := io.ReadAll(resp.Body)
				g.Answer = httpxtest.Answer{Status: resp.StatusCode, Header: resp.Header, Raw: raw}
				_ = json.Unmarshal(raw, &g.Doc)
			}
			return g
		}
		if keep != nil {
			*keep = append(*keep, conn)
		} else {
			defer func() { _ = conn.CloseNow() }()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // above the server's 5 s for a token
		defer cancel()
		if says != "" {
			// A server that has read enough closes while the rest is still in flight.
			_ = conn.Write(ctx, websocket.MessageText, []byte(says))
		}
		for {
			_, message, err := conn.Read(ctx)
			if err != nil {
				return got{closed: websocket.CloseStatus(err)}
			}
			if bytes.Contains(message, []byte(`"hello"`)) && len(says) < maxGreeted {
				return got{Answer: httpxtest.Answer{Status: http.StatusSwitchingProtocols}}
			}
		}
	}
}

// maxGreeted is longer than a token's message; after a longer greeting, dial
// waits for the close.
const maxGreeted = 4 << 10
