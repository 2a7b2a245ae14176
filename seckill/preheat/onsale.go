package preheat

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/watch/alarm"
)

var alarmItemFenced = alarm.Define("item-fenced", alarm.Critical,
	"An item whose sale is open is not loaded. Shoppers are asked to retry.",
	fault.T("Check the health of Redis, NATS and Postgres and the log line \"item not loaded\". If the order writer is behind, the item opens when the writer has caught up.",
		"检查 Redis、NATS 和 Postgres 的状态以及日志 \"item not loaded\"。若订单写入滞后，追上后商品会自动开放。"))

const (
	// fencedFor is how long an item on sale may go without decisions before an
	// alarm calls an operator: three times what a Load with busy publishers
	// takes.
	fencedFor = 20 * time.Second
	// fencedEvery is how often the last check is examined.
	fencedEvery = 5 * time.Second
	// lookExpires is the age beyond which the last check says nothing: the slowest
	// one, and a few more seconds.
	lookExpires = checkTimeout + 5*checkEvery
)

// look is what a check found about the items on sale. It is immutable once it is
// Service.last.
type look struct {
	at       time.Time
	fenced   []alarm.Finding // those that Redis does not decide, with the reason
	degraded []alarm.Finding // fenced without those whose first Load has just begun
	err      error           // some could not be checked
}

// FencedProbe finds items whose sale is open but that Redis does not decide,
// whatever the reason: failing Loads have their own alarm, but a Load that waits
// for the order writer does not fail. A Redis that does not answer has its own
// alarm, and hides only the items that it stores.
func (s *Service) FencedProbe() alarm.Probe {
	return alarm.Probe{Alarm: alarmItemFenced, Every: fencedEvery, For: fencedFor, Shared: true, Look: func(context.Context) ([]alarm.Finding, error) {
		l := s.lastLook()
		return l.fenced, l.err
	}}
}

// Deciding returns an error if the last check found items on sale that Redis does
// not decide, or could not tell. It reads nothing. An item published while its sale is
// open has fencedFor for its first Load.
func (s *Service) Deciding(context.Context) error {
	l := s.lastLook()
	if len(l.degraded) > 0 {
		return fmt.Errorf("seckill: %d items on sale do not sell, for example %s: %s", len(l.degraded), l.degraded[0].Subject, l.degraded[0].Detail)
	}
	return l.err
}

// lastLook returns what the last check found.
func (s *Service) lastLook() look {
	l := s.last.Load()
	if l == nil {
		return look{err: errors.New("seckill: the items are not checked yet")}
	}
	if age := time.Since(l.at); age > lookExpires {
		return look{err: fmt.Errorf("seckill: the items were checked %s ago", age.Round(time.Second))}
	}
	return *l
}
