package message

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/edge/sms"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

const (
	hangzhou = "+8613800138000"
	london   = "+447700900123"
)

// A win reaches the phone once although the gateway fails at first and the event comes twice; one that still waits
// when the order is paid does not.
func TestWinReachesThePhone(t *testing.T) {
	t.Parallel()
	b := setup(t, halfOfTheTime())
	chinese, english, elsewhere := b.user(hangzhou), b.user(london), int64(7)
	deadline := time.Date(time.Now().Year()+1, 11, 11, 20, 15, 0, 0, time.UTC)
	b.happens(orderevent.SubjectCreated, pending(chinese, deadline), pending(english, deadline), pending(elsewhere, deadline))
	require.Equal(t, "rows, of those who have a phone", b.count(waiting), 2)
	b.drain()
	require.Equal(t, "in Chinese", strings.Join(b.gw.to(hangzhou), "|"), "【好店】恭喜您抢到手机，共1件。请在11月11日20:15前支付¥99.00，逾期订单将自动取消。")
	require.Equal(t, "in English", strings.Join(b.gw.to(london), "|"), "[好店] You got 手机, quantity 1. Pay ¥99.00 by 11 Nov 20:15, or the order is cancelled.")
	row := pgtest.Read[string](t, b.db, `SELECT concat_ws(' ', state, channel, recipient, parts, attempts) FROM notify.messages WHERE user_id = $1`, chinese)
	require.Equal(t, "the row", row, "sent sms 138****8000 1 2")
	require.Equal(t, "counted", pgtest.Read[string](t, b.db, `SELECT concat_ws(' ', kind, channel, sent, parts, dead) FROM notify.message_days`), "won sms 2 3 0")

	b.gw.verdict = func(int, sms.Message) int { return http.StatusServiceUnavailable }
	again := pending(chinese, deadline)
	b.happens(orderevent.SubjectCreated, again)
	again.Status, again.PaidAt = orderevent.StatusPaid, time.Now()
	b.happens(orderevent.SubjectPaid, again)
	b.gw.verdict = takes
	b.drain()
	require.Equal(t, "dropped", b.reasons(dropped), "won: the order was paid or closed")
	require.Equal(t, "the last text", b.gw.to(hangzhou)[1], "【好店】您购买的手机（1件）已付款成功，实付¥99.00，感谢您的支持。")
}

// What the gateway refuses is dead, and an alarm says why.
func TestRefusedMessageIsDead(t *testing.T) {
	t.Parallel()
	b := setup(t, func(int, sms.Message) int { return http.StatusBadRequest })
	b.happens(orderevent.SubjectCreated, pending(b.user(hangzhou), time.Now().Add(time.Hour)))
	b.drain()
	require.Contains(t, "dead", b.reasons(dead), "won: ", "does not send to this number")
	found, err := b.Probes()[0].Look(t.Context())
	require.NoError(t, err)
	if len(found) != 1 || b.Probes()[0].Alarm != alarmDead || found[0].Subject != "messages won" {
		t.Errorf("found %+v", found)
	}
}

// When the budget is used up, reminders are not sent, an alarm says so, and messages about orders still are.
func TestBudgetStopsRemindersOnly(t *testing.T) {
	t.Parallel()
	b := setup(t, takes)
	b.rule(func(r *Rules) { r.Budget, r.BudgetPer, r.QuietUntil = 2, "day", r.QuietFrom })
	users := []int64{b.user(hangzhou), b.user("+8613800138001"), b.user("+8613800138002")}
	b.opens(5, 10*time.Minute, users...)
	require.NoError(t, b.remind(t.Context()))
	b.dueNow()
	b.drain()
	require.Equal(t, "reminders sent and dropped", []any{b.count(sent), b.reasons(dropped)}, []any{2, "reminder: budget used up"})
	require.Equal(t, "alarms", pgtest.Read[int](t, b.db, `SELECT count(*)::int FROM platform.alarms WHERE code = $1`, string(alarmBudget.Code)), 1)
	b.happens(orderevent.SubjectCreated, pending(users[0], time.Now().Add(time.Hour)))
	b.drain()
	require.Equal(t, "sent with the win", b.count(sent), 3)
}

// What costs nothing, or no more than is left of the budget, is not refused while another message asks for more.
func TestBudgetIsTakenAtOnce(t *testing.T) {
	t.Parallel()
	b := &work{lane: lane{offers: true}, rules: Rules{ShopperMessageSettings: ShopperMessageSettings{Budget: 10}}}
	b.room.Store(1)
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				b.affords(2)
			}
		}
	}()
	refused := map[int]int{}
	for range 200_000 {
		for _, parts := range []int{0, 1} {
			if !b.affords(parts) {
				refused[parts]++
			} else if parts > 0 {
				b.room.Add(int64(parts))
			}
		}
	}
	close(stop)
	<-ended
	require.Equal(t, "refused, by parts", fmt.Sprint(refused), "map[]")
}
