package attack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/humancheck"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// TestAttackOnePersonManyAccounts plays one person with one address, or with a network
// of IPv6 addresses, who makes accounts and asks for rush paths as many users, beside
// 200 honest shoppers who share a carrier's address. What is asked of the person grows
// with what was done; each shopper does some work and is never refused.
func TestAttackOnePersonManyAccounts(t *testing.T) {
	t.Parallel()
	const free = 20 // shoppers of one address; fewer than usual, because each costs the test some requests
	p := people{Instance: shop.Serve(t, pgtest.DatabaseURL(t), pgtest.RedisURL(t), "--trusted-proxies=127.0.0.1", "--sandbox-sms",
		"--human-check-strength=low", "--paths-per-minute=5", "--easy-paths-per-address="+strconv.Itoa(free))}
	const easy = 14 // of --human-check-strength=low, for a first code
	item := p.Plan(t, 1000, 0).ItemID
	p.AwaitLoaded(t, item)

	t.Run("the door's checks of one user", func(t *testing.T) {
		t.Parallel()
		guardsTheRush(t, p.Instance)
	})

	t.Run("accounts of one address", func(t *testing.T) {
		t.Parallel()
		const addr = "203.0.113.9"
		var codes, logins []int
		for n := range 22 {
			phone := fmt.Sprintf("138001390%02d", n)
			_, bits := p.working(t, addr, "auth/sms-codes", "", map[string]any{"phone": phone, "purpose": "login"})
			codes = append(codes, bits)
			made, bits := p.working(t, addr, "auth/login/sms", "", map[string]any{"phone": phone, "code": shop.SMSCode(t, p.Instance, "+86"+phone)})
			if logins = append(logins, bits); made["access_token"] == nil {
				t.Fatalf("login %d: %v", n+1, made)
			}
		}
		// While Redis is slow to say what the record is, the least is required.
		if slices.Min(codes) != easy || slices.Max(codes[:10]) != easy || slices.Max(codes) != easy+2 {
			t.Errorf("work for the codes of one address: %v bits", codes)
		}
		if slices.Max(logins) < easy+1 {
			t.Errorf("work for the first logins of one address: %v bits", logins)
		}
		_, bits := p.working(t, "203.0.113.10", "auth/sms-codes", "", map[string]any{"phone": "13800139099", "purpose": "login"})
		require.Equal(t, "bits for a first code of another address", bits, easy)
	})

	// Nothing is solved: an attacker who asks first and works later pays as much. The
	// counts fall while the test runs, so a level may begin later than its budget says.
	for name, c := range map[string]struct {
		user        int64
		addr        func(n int) string
		free, level int
	}{
		"paths of one address": {10_000, func(int) string { return "198.51.100.9" }, free, 2},
		"paths of a /48":       {30_000, func(n int) string { return fmt.Sprintf("2001:db8:1:%x::1", n*100) }, 4 * free, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p.rises(t, item, c.user, c.free, easy+c.level, c.addr)
		})
	}

	t.Run("shoppers of a carrier", func(t *testing.T) {
		t.Parallel()
		const addr, shoppers = "192.0.2.77", 200
		worked := map[int]int{}
		for n := range shoppers {
			token := shop.Mint(t, 40_000+int64(n), auth.Shopper)
			_, bits := p.askPath(t, item, token, addr) // a path, or work
			if bits > easy+ratelimit.MostLevel {
				t.Errorf("shopper %d: work of %d bits", n+1, bits)
			}
			worked[bits]++
			if n%10 != 0 {
				continue // the others would do theirs as well
			}
			if made, _ := p.working(t, addr, "items/"+item+"/rush-path", token, map[string]any{"quantity": 1}); made["path"] == nil {
				t.Errorf("shopper %d gets no path: %v", n+1, made)
			}
		}
		t.Logf("shoppers by bits of work: %v", worked)
		if worked[0] < free {
			t.Errorf("%d shoppers did no work, want %d", worked[0], free)
		}
	})

	// A client that drops its cookies is the address of above, and one that keeps its
	// cookie is a device at any address.
	t.Run("paths of one device", func(t *testing.T) {
		t.Parallel()
		p := people{p.Instance, new(http.Cookie)}
		p.from(t, "192.0.2.1", "auth/login", "", "", map[string]any{"phone": "13800139077", "password": "not this one"})
		require.Equal(t, "the cookie of the login", p.cookies.Name, httpx.DeviceCookie)
		p.rises(t, item, 60_000, 1, easy+2, func(n int) string { return fmt.Sprintf("192.0.2.%d", 100+n) })
	})

	t.Run("users of this machine", func(t *testing.T) {
		t.Parallel()
		for n := range 60 {
			_, bits := p.askPath(t, item, shop.Mint(t, 50_000+int64(n), auth.Shopper), "127.0.0.1")
			require.Equal(t, fmt.Sprint("bits for user ", n+1), bits, 0)
		}
	})
}

// people send requests from addresses that a trusted proxy names.
type people struct {
	*shop.Instance
	cookies *http.Cookie // the last one that was set; nil drops it
}

// from sends a request from an address.
func (p people) from(t *testing.T, addr, path, token, proof string, body any) (int, map[string]any) {
	t.Helper()
	raw, err := json.Marshal(body)
	require.NoError(t, err)
	cookie := ""
	if p.cookies != nil && p.cookies.Name != "" {
		cookie = p.cookies.Name + "=" + p.cookies.Value
	}
	a := httpxtest.Send(t, http.DefaultClient, http.MethodPost, p.URL+"/api/v1/"+path, token, string(raw), "X-Forwarded-For", addr, humancheck.Header, proof, "Cookie", cookie)
	for _, c := range (&http.Response{Header: a.Header}).Cookies() {
		if p.cookies != nil {
			*p.cookies = *c
		}
	}
	if a.Doc == nil {
		t.Fatalf("%s: %d %s", path, a.Status, a.Raw)
	}
	return a.Status, a.Doc
}

// working sends a request and does the work that is required, as the pages do. It
// returns the answer and the most bits that were required.
func (p people) working(t *testing.T, addr, path, token string, body any) (doc map[string]any, bits int) {
	t.Helper()
	proof := ""
	for range 4 { // the pages try as often
		_, doc = p.from(t, addr, path, token, proof, body)
		c := challengeIn(t, doc)
		if c.Kind != humancheck.Pow {
			return doc, bits
		}
		bits = max(bits, c.Difficulty)
		var err error
		proof, err = humancheck.Solve(t.Context(), c.Challenge, c.Difficulty)
		require.NoError(t, err)
	}
	return doc, bits
}

// askPath asks for a path once; bits is the work that is required instead.
func (p people) askPath(t *testing.T, item, token, addr string) (doc map[string]any, bits int) {
	t.Helper()
	_, doc = p.from(t, addr, "items/"+item+"/rush-path", token, "", map[string]any{"quantity": 1})
	c := challengeIn(t, doc)
	if doc["path"] == nil && c.Kind != humancheck.Pow {
		t.Fatalf("neither a path nor work: %v", doc)
	}
	return doc, c.Difficulty
}

// rises asks for paths as ever new users. The first free ones get theirs, and the work
// for the others rises to some bits.
func (p people) rises(t *testing.T, item string, user int64, free, bits int, addr func(n int) string) {
	t.Helper()
	var asked []int
	for n := range 6 * free {
		_, work := p.askPath(t, item, shop.Mint(t, user+int64(n), auth.Shopper), addr(n))
		if asked = append(asked, work); work == bits {
			break
		}
	}
	if slices.Max(asked[:free]) != 0 || asked[len(asked)-1] != bits {
		t.Errorf("work for the paths of %d users: %v bits, want 0 for %d, then up to %d", len(asked), asked, free, bits)
	}
}

// challengeIn returns the challenge of a refusal.
func challengeIn(t *testing.T, doc map[string]any) (c humancheck.Challenge) {
	t.Helper()
	raw, err := json.Marshal(doc["challenge"])
	if err == nil && doc["challenge"] != nil {
		err = json.Unmarshal(raw, &c)
	}
	require.NoError(t, err)
	return c
}
