package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"stampede/platform/edge/auth"
	"stampede/platform/identity/humancheck"
	"stampede/platform/workshop/pgtest"
)

// TestAttackOnePersonManyAccounts plays one person with one address, or with a network
// of IPv6 addresses, who makes accounts and asks for rush paths as many users, beside
// 200 honest shoppers who share a carrier's address. What is asked of the person grows
// with what was done; each shopper does some work and is never refused.
func TestAttackOnePersonManyAccounts(t *testing.T) {
	t.Parallel()
	p := people{serveInstance(t, pgtest.DatabaseURL(t), pgtest.RedisURL(t), "--trusted-proxies=127.0.0.1", "--sandbox-sms",
		"--human-check-strength=low", "--paths-per-minute=5")}
	const easy = 14 // of --human-check-strength=low, for a first code
	item := p.plan(t, 1000, 0).ItemID
	p.awaitLoaded(t, item)

	t.Run("accounts of one address", func(t *testing.T) {
		t.Parallel()
		const addr = "203.0.113.9"
		var asked []int
		for n := range 22 {
			phone := fmt.Sprintf("138001390%02d", n)
			_, bits := p.working(t, addr, "auth/sms-codes", "", map[string]any{"phone": phone, "purpose": "login"})
			asked = append(asked, bits)
			made, bits := p.working(t, addr, "auth/login/sms", "", map[string]any{"phone": phone, "code": smsCode(t, p.instance, "+86"+phone)})
			if made["access_token"] == nil {
				t.Fatalf("login %d: %v", n+1, made)
			}
			if (bits > 0) != (n >= 10) {
				t.Errorf("login %d: work of %d bits", n+1, bits)
			}
		}
		if asked[0] != easy || !slices.IsSorted(asked) || asked[9] != easy || asked[10] != easy+1 || asked[20] != easy+2 {
			t.Errorf("work for the codes of one address: %v bits", asked)
		}
		if _, bits := p.working(t, "203.0.113.10", "auth/sms-codes", "", map[string]any{"phone": "13800139099", "purpose": "login"}); bits != easy {
			t.Errorf("a first code of another address: %d bits", bits)
		}
	})

	// Nothing is solved: an attacker who asks first and works later pays as much. The
	// counts fall while the test runs, so a level may begin later than its budget says.
	for name, c := range map[string]struct {
		user        int64
		addr        func(n int) string
		free, level int
	}{
		"paths of one address": {10_000, func(int) string { return "198.51.100.9" }, 50, 2},
		"paths of a /48":       {30_000, func(n int) string { return fmt.Sprintf("2001:db8:1:%x::1", n*100) }, 200, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked []int
			for n := range 6 * c.free {
				_, bits := p.askPath(t, item, mint(t, c.user+int64(n), auth.Shopper), c.addr(n))
				if asked = append(asked, bits); bits == easy+c.level {
					break
				}
			}
			if last := asked[len(asked)-1]; asked[c.free-1] != 0 || last != easy+c.level || !slices.IsSorted(asked) {
				t.Errorf("work for the paths of %d users: %v bits", len(asked), asked)
			}
		})
	}

	t.Run("shoppers of a carrier", func(t *testing.T) {
		t.Parallel()
		const addr, shoppers = "192.0.2.77", 200
		var mu sync.Mutex
		worked := map[int]int{}
		var all sync.WaitGroup
		for lane := range 8 {
			all.Go(func() {
				for n := lane; n < shoppers; n += 8 {
					made, bits := p.working(t, addr, "items/"+item+"/rush-path", mint(t, 40_000+int64(n), auth.Shopper), map[string]any{"quantity": 1})
					if made["path"] == nil {
						t.Errorf("shopper %d gets no path: %v", n+1, made)
					}
					mu.Lock()
					worked[bits]++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		t.Logf("shoppers by bits of work: %v", worked)
		for bits := range worked {
			if bits > easy+2 {
				t.Errorf("a shopper had to do %d bits", bits)
			}
		}
		if worked[0] < 50 {
			t.Errorf("%d shoppers did no work, want 50", worked[0])
		}
	})

	t.Run("users of this machine", func(t *testing.T) {
		t.Parallel()
		for n := range 60 {
			if _, bits := p.askPath(t, item, mint(t, 50_000+int64(n), auth.Shopper), "127.0.0.1"); bits != 0 {
				t.Fatalf("user %d: work of %d bits", n+1, bits)
			}
		}
	})
}

// people send requests from addresses that a trusted proxy names.
type people struct{ *instance }

// from sends a request from an address.
func (p people) from(t *testing.T, addr, path, token, proof string, body any) (int, map[string]any) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/api/v1/"+path, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "X-Forwarded-For": addr, "Authorization": "Bearer " + token, humancheck.Header: proof} {
		if value != "" && value != "Bearer " {
			req.Header.Set(name, value)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var doc map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil {
		t.Fatalf("%s: %d %v", path, resp.StatusCode, err)
	}
	return resp.StatusCode, doc
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
		if proof, err = humancheck.Solve(t.Context(), c.Challenge, c.Difficulty); err != nil {
			t.Fatal(err)
		}
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

// challengeIn returns the challenge of a refusal.
func challengeIn(t *testing.T, doc map[string]any) (c humancheck.Challenge) {
	t.Helper()
	raw, err := json.Marshal(doc["challenge"])
	if err == nil && doc["challenge"] != nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}
