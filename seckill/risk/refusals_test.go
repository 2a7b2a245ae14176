package risk

import (
	"testing"

	"stampede/platform/base/fault"
	"stampede/platform/workshop/pgtest"
)

// Refusals by the counted checks add up over all instances; an unavailable
// store and the request for a proof do not count.
func TestRefusalsPerMinute(t *testing.T) {
	t.Parallel()
	y := setup(t)
	item := y.activity("sale", false)
	one, two := y.instance(), y.instance()
	one.work()
	two.work()
	one.addRule(`{"kind":"refusals_per_minute","threshold":6,"action":"later","amount":300000}`)
	says := map[int64]error{
		1: fault.New(fault.TooMany, "rate-limited", fault.Titles{"You are asking too often", "操作太频繁，请稍后再试"}, "Slower."),
		2: fault.New(fault.Forbidden, "human-check-required", fault.Titles{"Complete the human check", "请先完成人机验证"}, "Prove it."),
		3: fault.Plain(fault.Unavailable, "Away."),
		4: errNotAvailable, // refused by a rule
	}
	for _, i := range []*instance{one, two} {
		for user := range int64(5) {
			for range 4 { // eight in all, but four on each instance
				i.Turned(user, says[user])
			}
		}
	}
	later := func(i *instance, user int64) bool {
		a := i.applicant(user, item)
		if err := i.Door(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		return a.UsableFrom.After(item.OpensAt)
	}
	pgtest.Eventually(t, inForce, func() bool { return later(one, 1) && later(two, 1) }, "refusals of both instances counted together")
	for user := range int64(5) {
		if user != 1 && (later(one, user) || later(two, user)) {
			t.Errorf("user %d is hit", user)
		}
	}
}
