package risk

import (
	"net/netip"
	"testing"

	"stampede/platform/base/fault"
	"stampede/platform/identity/blacklist"
	"stampede/platform/workshop/require"
	"stampede/seckill/rush"
)

// list is a fake blacklist.
type list map[string]bool

func (l list) Listed(user int64, _, device string, addr netip.Addr) (blacklist.Entry, bool) {
	if l[decimal(user)] || l[device] || l[addr.String()] {
		return blacklist.Entry{ID: 4, Kind: string(blacklist.Device), Reason: "secret"}, true
	}
	return blacklist.Entry{}, false
}

func TestListedUserGetsANeutralRefusal(t *testing.T) {
	t.Parallel()
	y := setup(t)
	item := y.activity("sale", false)
	i := y.instance(func(_ *Settings, d *Deps) { d.Blacklist = list{"1": true, "stolen": true, "192.0.2.1": true} })
	stop := i.work()
	for _, change := range []func(*rush.Applicant){
		func(a *rush.Applicant) { a.User = 1 },
		func(a *rush.Applicant) { a.Device = "stolen" },
		func(a *rush.Applicant) { a.Address = netip.MustParseAddr("192.0.2.1") },
	} {
		a := i.applicant(2, item)
		require.NoError(t, i.Door(t.Context(), a))
		change(a)
		err := i.Door(t.Context(), a)
		requireFault(t, "listed", err, "not-available")
		require.Equal(t, "words", fault.From(err).Detail[0], "This item is not available to you right now.")
	}
	stop()
	require.Equal(t, "decisions", y.count(`SELECT count(*) FROM risk.decisions WHERE rule_id = 0 AND result = 'refused' AND rule->>'blacklist' = '4'`), 3)
	require.Equal(t, "reasons kept", y.count(`SELECT count(*) FROM risk.decisions WHERE rule::text LIKE '%secret%'`), 0)
}
