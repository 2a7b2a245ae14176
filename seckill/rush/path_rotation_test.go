package rush

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilltest"
)

// keyed are the signing keys of one instance: the one it signs with, and the
// others that it accepts.
type keyed struct {
	signs string
	takes []string
}

func (k keyed) others() (keys [][]byte) {
	for _, o := range k.takes {
		keys = append(keys, signingKeys[o])
	}
	return keys
}

var signingKeys = map[string][]byte{
	"old": []byte("the key of yesterday, 32 bytes.."), "new": []byte("the key of tomorrow, 32 bytes..."),
}

// keyedInstance is an instance that was started with these keys, as serve starts
// one, and its tokens.
func (y *bundle) keyedInstance(k keyed, items ...*catalogue.Item) (*instance, *auth.Tokens) {
	y.T.Helper()
	i := y.signing(signingKeys[k.signs], items, func(cfg *Config) { cfg.PreviousSigningKeys = k.others() })
	return i, auth.NewTokens(signingKeys[k.signs], time.Now, auth.Previous(k.others()...))
}

// Two instances of one shop replace their signing key one after the other while
// shoppers hold paths and tokens of both. Neither instance refuses an unexpired
// path or token at any moment; once the old key is removed, what it signed is no
// longer accepted.
func TestKeysRotateUnderway(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(1000)
	defer y.Write()()
	var (
		before  = keyed{signs: "old"}
		listed  = keyed{signs: "old", takes: []string{"new"}}
		swapped = keyed{signs: "new", takes: []string{"old"}}
		after   = keyed{signs: "new"}
	)
	type issued struct{ path, token, by string }
	var outstanding []issued
	var kept issued // signed with the old key and not used until it is gone
	user := int64(0)
	for moment, pair := range [][2]keyed{
		{before, before}, {listed, before}, {listed, listed}, {swapped, listed}, {swapped, swapped}, {after, swapped}, {after, after},
	} {
		var fresh []issued
		for n, k := range pair {
			i, tokens := y.keyedInstance(k, it)
			oldOnly := moment > 4 && k.signs == "new" && len(k.takes) == 0 // what the old key signed has expired by now
			for _, o := range outstanding {
				if oldOnly && strings.HasSuffix(o.by, "old") {
					continue
				}
				if _, err := tokens.Verify(o.token); err != nil {
					t.Errorf("moment %d, instance %d refuses a token %s: %v", moment, n, o.by, err)
				}
			}
			// Each path is one attempt: every instance takes those that the other issued last.
			for x := n; x < len(outstanding); x += 2 {
				if o := outstanding[x]; !oldOnly || !strings.HasSuffix(o.by, "old") {
					if a := i.send(o.path); a.Status != http.StatusAccepted {
						t.Errorf("moment %d, instance %d refuses a path %s: %d %s", moment, n, o.by, a.Status, a.Code)
					}
				}
			}
			for range 4 {
				user++
				token, err := tokens.Mint(auth.Principal{UserID: user, Role: auth.Shopper}, time.Minute)
				require.NoError(t, err)
				fresh = append(fresh, issued{i.issue(user, it, 1).Path, token, fmt.Sprintf("of moment %d, instance %d, key %s", moment, n, k.signs)})
			}
		}
		if moment == 0 {
			kept = fresh[0]
			fresh = fresh[1:]
		}
		outstanding = fresh
	}
	last, tokens := y.keyedInstance(after, it)
	last.send(kept.path).want(t, "a path of a removed key", http.StatusForbidden, "bad-path")
	if _, err := tokens.Verify(kept.token); err == nil {
		t.Error("a token of a removed key is accepted")
	}
}

// A request without a valid path is answered 403 from memory: forged links
// cause no work in Redis or Postgres.
func TestBadPathsCostNoRedisCall(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(10)
	calls := new(seckilltest.RedisCalls)
	y.Redis.AddHook(calls)
	i := y.instance([]*catalogue.Item{it})
	stranger, _ := y.keyedInstance(keyed{signs: "old"}, it)
	path, foreign := i.issue(1, it, 1).Path, stranger.issue(1, it, 1).Path
	cases := map[string]string{
		"made up": "made-up", "foreign": foreign, "cut short": path[:len(path)-1], "too long": path + "A", "spliced": path[:48] + foreign[48:],
	}
	before := calls.N.Load()
	for name, p := range cases {
		i.send(p).want(t, name, http.StatusForbidden, "bad-path")
	}
	i.clock.Advance(PathLifetime + clockTolerance + time.Second)
	for range 3 {
		i.send(path).want(t, "expired", http.StatusForbidden, "path-expired")
	}
	require.Equal(t, "commands that refusals sent to Redis", calls.N.Load()-before, 0)
	if a := y.instance([]*catalogue.Item{it}).send(path); a.Status != http.StatusAccepted || calls.N.Load() == before {
		t.Errorf("a good path: %d %s after %d calls; the hook counts nothing", a.Status, a.Code, calls.N.Load()-before)
	}
}
