package deadletters_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/deadletters"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.MainWaiting(m, func() error { return goleak.Find() }) }

func TestKeepMayBeRepeated(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	for _, m := range []bus.Msg{{ID: ids.New(), Subject: "events.a"}, {Seq: 7, Subject: "events.a"}, {Seq: 8, Subject: "events.a"}} {
		for range 2 {
			require.NoError(t, deadletters.Keep(t.Context(), pool, "effect", m, errors.New("cannot: \x00\xff broken text"+strings.Repeat("ä", 10_000))))
		}
	}
	kept := pgtest.Read[int](t, pool, `SELECT count(*) FROM platform.dead_letters WHERE error LIKE '%broken text%'`)
	require.Equal(t, "dead letters", kept, 3)
}

func TestNewerEventsRaiseAnAlarmAndAreNotKept(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	cause := fmt.Errorf("%w: layout 2", bus.ErrNewer)
	require.NoError(t, deadletters.Keeper(pool)(t.Context(), "effect", bus.Msg{ID: ids.New(), Subject: "events.a"}, cause))
	require.Equal(t, "dead letters", pgtest.Read[int](t, pool, `SELECT count(*) FROM platform.dead_letters`), 0)
	alarms, err := alarm.List(t.Context(), pool, alarm.Filter{Open: true, Limit: 10})
	if err != nil || len(alarms) != 1 || alarms[0].Code != "newer-events" || alarms[0].Subject != "effect" {
		t.Errorf("alarms %+v, %v", alarms, err)
	}
}
