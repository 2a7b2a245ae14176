package funnel

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"stampede/platform/edge/httpx"
	"stampede/platform/watch/alarm"
	"stampede/seckill/internal/operator"
	"stampede/seckill/internal/wire"
)

// warRoomView is what operators watch during an activity, on one screen.
type warRoomView struct {
	At         wire.Time        `json:"at" doc:"The server's clock, by which sessions open and close"`
	ActivityID wire.ID          `json:"activity_id"`
	Name       string           `json:"name"`
	Status     string           `json:"status" enum:"draft,scheduled,running,ended,terminated"`
	Paused     bool             `json:"paused" doc:"The whole activity is paused"`
	Sessions   []warRoomSession `json:"sessions" nullable:"false" doc:"What the other figures are about: the sessions that are open, or else those whose opening or end is nearest"`
	Attempts   int64            `json:"attempts" doc:"Rushes answered in these sessions, on all instances"`
	Answers    map[string]int64 `json:"answers" doc:"The answers by code"`
	Curve      warRoomCurve     `json:"curve"`
	Busiest    *warRoomSecond   `json:"busiest,omitempty" doc:"The second with the most attempts; absent before the first attempt"`
	Items      []warRoomItem    `json:"items" nullable:"false"`

	Queued            int64         `json:"queued" doc:"Grants of these items whose order is not written yet: the order writer's lag"`
	WaitP99           *int64        `json:"wait_p99_ms" nullable:"true" doc:"99 of 100 attempts in the last minute waited no longer in the line until their answer; null if none waited"`
	VisibleP99        *int64        `json:"visible_p99_ms" nullable:"true" doc:"99 of 100 grants in the last minute were orders that could be read after this time; null if there were none"`
	PaymentsPerMinute int64         `json:"payments_per_minute" doc:"Orders paid in the last minute"`
	Difference        *int64        `json:"difference" nullable:"true" doc:"Units of these items that are not accounted for: 0 when the books balance; null while they cannot be read"`
	Sockets           int64         `json:"sockets" doc:"WebSockets open on all instances"`
	Instances         int64         `json:"instances" doc:"Instances that serve"`
	Alarms            []alarm.Alarm `json:"alarms" nullable:"false" doc:"The newest alarms that no one has acknowledged, the critical ones first"`
}

// warRoomSession is a session that the war room shows.
type warRoomSession struct {
	ID       wire.ID   `json:"id"`
	Name     string    `json:"name"`
	OpensAt  wire.Time `json:"opens_at"`
	ClosesAt wire.Time `json:"closes_at"`
}

// warRoomItem is an item of these sessions.
type warRoomItem struct {
	ID        wire.ID      `json:"id"`
	SessionID wire.ID      `json:"session_id"`
	SKU       string       `json:"sku"`
	Title     string       `json:"title"`
	Spec      string       `json:"spec"`
	Paused    bool         `json:"paused" doc:"The item by itself is paused"`
	Admission *int32       `json:"admission" nullable:"true" doc:"Attempts a second that each instance admits to the line; null is all"`
	Attempts  int64        `json:"attempts"`
	Loaded    bool         `json:"loaded" doc:"Redis decides on the item"`
	Queued    int64        `json:"queued" doc:"Grants whose order is not written yet"`
	Books     *funnelBooks `json:"books,omitempty" doc:"Where every unit is; absent while it cannot be read, and for a draft"`
}

// warRoomSecond is a second with its attempts.
type warRoomSecond struct {
	At       wire.Time `json:"at"`
	Attempts int64     `json:"attempts"`
}

// warRoomCurve is the attempts by answer over time.
type warRoomCurve struct {
	Whole  bool           `json:"whole" doc:"These are all points. Otherwise they are the latest ones, which replace those of the same times; a client drops points before from"`
	From   wire.Time      `json:"from" doc:"Where the curve begins: a minute before the opening, at most a day ago"`
	Until  wire.Time      `json:"until" doc:"Up to where it is counted; a step that ends later is not complete"`
	Step   int            `json:"step" doc:"Seconds of a step. It grows with the curve, which has 600 points at most"`
	Points []warRoomPoint `json:"points" nullable:"false" doc:"Steps in which nothing was answered are left out"`
}

// warRoomPoint is a step of the curve.
type warRoomPoint struct {
	At      wire.Time        `json:"at" doc:"The step's beginning"`
	Answers map[string]int64 `json:"answers" doc:"Answers in the step by code"`
}

// warRoomRoutes registers an activity's war room, once and as events.
func (s *Service) warRoomRoutes(api httpx.API) {
	const path = operator.Base + "/activities/{id}/war-room"
	op := operator.Read(path, "get-war-room", "What to watch during an activity: attempts, units, lag, books and alarms, of all instances")
	op.Description = "About the sessions that are open, or else those whose opening or end is nearest. Counted on every instance and merged, up to two seconds ago."
	httpx.Register(api, op, func(ctx context.Context, in *operator.ByID) (*operator.Body[warRoomView], error) {
		return operator.Answer(in.ID, func(id int64) (warRoomView, error) { return s.rooms.once(ctx, id, s.openRoom(id)) })
	})
	const live = path + "/live"
	op = operator.Read(live, "follow-war-room", "An activity's war room every second, as server-sent events")
	op.Class = httpx.Events
	op.Description = "Events without a name or an id, one at once and then one every second: the `data` of each is the JSON document that GET /api/v1/admin/activities/{id}/war-room answers, in one line. " +
		"The curve of the first has all points (`whole`), that of the others the latest ones, unless its step has changed. The stream ends after ten minutes, with its token, or when the server stops; connect again."
	httpx.Register(api, op, func(ctx context.Context, in *operator.ByID) (*huma.StreamResponse, error) {
		id, err := httpx.ParseID(in.ID)
		if err != nil {
			return nil, err
		}
		return s.rooms.stream(ctx, id, s.stopping, s.openRoom(id))
	})
	describeEvents[warRoomView](api, live, "data: {\"activity_id\":\"7\",\"attempts\":1200,\"answers\":{\"queued\":100,\"all-held\":1100},…}\n\n")
}
