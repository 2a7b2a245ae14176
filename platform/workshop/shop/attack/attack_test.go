package attack

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// attacked is a server with small bounds.
type attacked struct{ *shop.Instance }

// hostile opens a connection and sends some bytes, never more.
func (in attacked) hostile(t *testing.T, bytes string) net.Conn {
	t.Helper()
	return httpxtest.Dial(t, strings.TrimPrefix(in.URL, "http://"), "127.0.0.1", bytes)
}

// honest sends a request on a connection of its own, which must be answered with a status.
func honest(t *testing.T, method, url, token, body string, want int) {
	t.Helper()
	a := httpxtest.Send(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}, method, url, token, body)
	require.Equal(t, method+" "+url+": "+string(a.Raw), a.Status, want)
}

// TestAttackIdleSockets opens five times as many connections as the server may
// have, silent ones and ones whose client stops at some point: new clients and the probe are served nevertheless, and the server closes the
// surplus.
func TestAttackIdleSockets(t *testing.T) {
	t.Parallel()
	const most = 50
	in := attacked{shop.Serve(t, pgtest.DatabaseURL(t), pgtest.RedisURL(t), "--max-connections=50")}
	var hostile []net.Conn
	for range most {
		hostile = append(hostile, in.hostile(t, ""), in.hostile(t, "GET / HTTP/1.1\r\nHost: x\r\n"),
			in.hostile(t, "GET /api/v1/time HTTP/1.1\r\nHost: x\r\n\r\n"),
			in.hostile(t, "POST /api/v1/rush/x HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"),
			in.hostile(t, "GET /api/v1/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"))
		honest(t, http.MethodGet, in.URL+"/api/v1/time", "", "", http.StatusOK)
	}
	honest(t, http.MethodGet, in.OpsURL(t)+"/readyz", "", "", http.StatusOK)
	open := func() (n int) {
		for _, c := range hostile {
			_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
			if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
				n++
			}
		}
		return n
	}
	// The last one makes room after it was accepted.
	pgtest.Eventually(t, 30*time.Second, func() bool { return open() <= most }, "the surplus of idle connections to be closed")
}

// TestAttackPlaces plays many more slow clients than the server has places. Shoppers
// and operators are served nevertheless.
func TestAttackPlaces(t *testing.T) {
	t.Parallel()
	in := attacked{shop.Serve(t, pgtest.DatabaseURL(t), pgtest.RedisURL(t), "--max-in-flight=8", "--max-concurrent=4", "--auth-human-check=none")}
	shopper, operator := shop.Mint(t, 1, auth.Shopper), shop.Mint(t, 2, auth.Operator)
	const many, pipelined = 16, 100
	var bursts []net.Conn
	half := func(path, token string) string {
		return "POST " + path + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token +
			"\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
	}
	for range many {
		// The document has some 300 kB; a connection's buffers hold a few of them.
		in.hostile(t, strings.Repeat("GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n", pipelined))
		bursts = append(bursts, in.hostile(t, strings.Repeat("GET /api/v1/admin/alarms HTTP/1.1\r\nHost: x\r\n\r\n", pipelined)))
		in.hostile(t, half("/api/v1/auth/login", "none"))
		in.hostile(t, half("/api/v1/items/1/rush-path", shopper))
		in.hostile(t, half("/api/v1/payments/sandbox/notify", "none"))
	}
	// Until they are refused, requests without a token have places like others.
	for _, c := range bursts {
		answers := bufio.NewReader(c)
		for range pipelined {
			a, err := http.ReadResponse(answers, nil)
			require.NoError(t, err)
			require.NoError(t, a.Body.Close()) // which reads it to its end
		}
	}
	for range 3 {
		for _, c := range []struct {
			method, path, token, body string
			want                      int
		}{
			{http.MethodGet, "/", "", "", http.StatusOK},
			{http.MethodGet, "/api/v1/sessions", "", "", http.StatusOK},
			{http.MethodGet, "/api/v1/admin/alarms", operator, "", http.StatusOK},
			{http.MethodGet, "/api/v1/orders", shopper, "", http.StatusOK},
			{http.MethodPost, "/api/v1/auth/login", "", `{"phone":"13800138000","password":"not this one"}`, http.StatusUnauthorized},
			{http.MethodPost, "/api/v1/items/1/rush-path", shopper, `{"quantity":1}`, http.StatusNotFound},
		} {
			honest(t, c.method, in.URL+c.path, c.token, c.body, c.want)
		}
	}
}

// attackEverNewKeys starts payments with a new Idempotency-Key each, and reads
// order lists: a user's requests are limited, another's are not.
func attackEverNewKeys(t *testing.T, in *shop.Instance) {
	t.Helper()
	const user = 7101
	hostile, another := shop.Mint(t, user, auth.Shopper), shop.Mint(t, user+1, auth.Shopper)
	no := ids.NewFor(user).String()
	for path, call := range map[string]func(token string, i int) int{
		"payments": func(token string, i int) int {
			return shop.Exchange(t, http.MethodPost, in.URL+"/api/v1/orders/"+no+"/payments", token, `{}`, "Idempotency-Key", strconv.Itoa(i)).Status
		},
		"order lists": func(token string, _ int) int {
			return shop.Exchange(t, http.MethodGet, in.URL+"/api/v1/orders", token, "").Status
		},
	} {
		// At once: on a slow machine one after the other would stay within the limit.
		var refused atomic.Int64
		var all sync.WaitGroup
		for i := range 60 {
			all.Go(func() {
				if call(hostile, i) == http.StatusTooManyRequests {
					refused.Add(1)
				}
			})
		}
		all.Wait()
		if refused.Load() == 0 {
			t.Errorf("%s: 60 requests of one user at once were answered", path)
		}
		if status := call(another, 0); status == http.StatusTooManyRequests {
			t.Errorf("%s: another user is refused too", path)
		}
	}
}
