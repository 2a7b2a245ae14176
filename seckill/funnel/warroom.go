package funnel

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"stampede/platform/edge/httpx"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/tally"
	"stampede/seckill/internal/operator"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/internal/wire"
	"stampede/seckill/plan"
	"stampede/seckill/report"
	"stampede/seckill/rush"
)

const (
	// roomBefore and roomAfter are how long before the opening and after the end attempts
	// are on the curve: some shoppers press too early, and some do not notice the end.
	roomBefore, roomAfter = time.Minute, 10 * time.Minute
	// roomAtMost bounds the curve of a session of several days.
	roomAtMost = 24 * time.Hour
	// roomLate is how long after a second its counts may still arrive: instances store them
	// within a second, and what one could not store arrives with a second that is not over.
	roomLate = 10 * time.Second
	// roomCounted is how long after a second its counts are usually complete.
	roomCounted = 2 * time.Second
	// roomBooks bounds the reading of the books, so that the other figures come although
	// Redis hangs.
	roomBooks = 2 * time.Second
	// roomAlarms bounds the alarms: a wall shows some, their own page has all. They are the
	// most severe of roomAlarmsRead.
	roomAlarms, roomAlarmsRead = 8, 50
)

// room reads an activity's war room again and again, the curve only as far as it may
// have changed. One goroutine uses it.
type room struct {
	*Service
	id int64

	plan     plan.ActivityView
	revision int64 // of the plan or before it; 0 before the first look

	// What the points are of: a change of it reads all of them again.
	of      curveOf
	points  []warRoomPoint // in the order of time
	busiest *warRoomSecond // nil before the first attempt
}

// curveOf is what a curve is of, as text for the items. The zero value is none.
type curveOf struct {
	items string
	first time.Time // the beginning, before it is cut to roomAtMost
	step  time.Duration
}

// openRoom returns what opens an activity's war room.
func (s *Service) openRoom(id int64) func() source[warRoomView] {
	return func() source[warRoomView] { return (&room{Service: s, id: id}).look }
}

// look reads the room once. After a failure the next look reads the plan and the whole
// curve again: Postgres may have failed over to a server that lacks the last changes.
func (r *room) look(ctx context.Context) (reading[warRoomView], error) {
	v, fresh, err := r.view(ctx)
	if err != nil {
		r.of, r.revision = curveOf{}, 0
		return reading[warRoomView]{}, err
	}
	change := v
	change.Curve.Whole, change.Curve.Points = fresh == 0, v.Curve.Points[fresh:]
	raw, err := json.Marshal(change)
	return reading[warRoomView]{v, raw}, err
}

// view reads the document; the points before fresh are those of the last look. Its parts
// are read one after the other, so that during a rush they are moments apart.
func (r *room) view(ctx context.Context) (v warRoomView, fresh int, err error) {
	if err := r.readPlan(ctx); err != nil {
		return v, 0, err
	}
	activity, now := &r.plan, r.deps.Clock.Now()
	v = warRoomView{
		At: wire.Time(now), ActivityID: activity.ID, Name: activity.Name, Status: activity.Status, Paused: activity.Paused,
		Sessions: []warRoomSession{}, Items: []warRoomItem{},
	}
	ids := v.show(nearest(activity.Sessions, now))
	totals, err := tally.Totals(ctx, r.deps.DB, ids...)
	if err != nil {
		return v, 0, err
	}
	for i := range v.Items {
		v.Items[i].Attempts = totals[ids[i]].Sum(rush.StageAnswers)
		v.Attempts += v.Items[i].Attempts
	}
	if v.Answers = tally.Sum(totals)[rush.StageAnswers]; v.Answers == nil {
		v.Answers = map[string]int64{}
	}
	if err := r.addRates(ctx, &v, now, ids); err != nil {
		return v, 0, err
	}
	r.addBooks(ctx, &v, ids)
	fresh, err = r.addCurve(ctx, &v, now, ids)
	return v, fresh, err
}

// readPlan reads the activity again if its revision, which every change of it, its
// sessions and its items raises, is another one.
func (r *room) readPlan(ctx context.Context) error {
	row, err := seckilldb.New(r.deps.DB).Activity(ctx, r.id)
	if err != nil {
		return plan.OrNotFound(err, plan.ErrNoActivity, "read activity")
	}
	if row.Revision == r.revision {
		return nil
	}
	if r.plan, err = plan.ReadActivity(ctx, r.deps.DB, r.id); err == nil {
		r.revision = row.Revision
	}
	return err
}

// nearest are the sessions that are open, or else those whose opening or end is nearest.
func nearest(sessions []plan.SessionView, now time.Time) (shown []plan.SessionView) {
	away := func(s *plan.SessionView) time.Duration {
		return max(0, time.Time(s.OpensAt).Sub(now), now.Sub(time.Time(s.ClosesAt)))
	}
	for i := range sessions {
		switch s := &sessions[i]; {
		case len(shown) == 0 || away(s) < away(&shown[0]):
			shown = []plan.SessionView{*s}
		case away(s) == away(&shown[0]):
			shown = append(shown, *s)
		}
	}
	return shown
}

// show puts the sessions and their items into the document, and returns the items' ids.
func (v *warRoomView) show(sessions []plan.SessionView) (ids []int64) {
	for _, s := range sessions {
		v.Sessions = append(v.Sessions, warRoomSession{s.ID, s.Name, s.OpensAt, s.ClosesAt})
		for _, i := range s.Items {
			ids = append(ids, int64(i.ID))
			v.Items = append(v.Items, warRoomItem{ID: i.ID, SessionID: s.ID, SKU: i.SKU, Title: i.Title, Spec: i.Spec, Paused: i.Paused, Admission: i.Admission})
		}
	}
	return ids
}

// addRates adds what was measured in the last minute, and the alarms.
func (r *room) addRates(ctx context.Context, v *warRoomView, now time.Time, ids []int64) error {
	recent, err := tally.Since(ctx, r.deps.DB, now.Add(-time.Minute), ids...)
	if err != nil {
		return err
	}
	v.PaymentsPerMinute = recent["orders"]["paid"] + recent["orders"]["retaken"]
	p99 := func(stage string) *int64 {
		if took, ok := tally.Percentile(recent[stage], .99); ok {
			return new(took.Milliseconds())
		}
		return nil
	}
	v.WaitP99, v.VisibleP99 = p99(rush.StageWaits), p99("visible")
	gauges, err := tally.Gauges(ctx, r.deps.DB)
	if err != nil {
		return err
	}
	v.Sockets, v.Instances = gauges["sockets"].Sum, gauges["sockets"].Instances
	alarms, err := alarm.List(ctx, r.deps.DB, alarm.Filter{Open: true, Limit: roomAlarmsRead})
	if err != nil {
		return err
	}
	slices.SortStableFunc(alarms, func(a, b alarm.Alarm) int { // "critical" before "warning"
		return cmp.Compare(a.Severity, b.Severity)
	})
	v.Alarms = alarms[:min(len(alarms), roomAlarms)]
	return nil
}

// addBooks adds where the items' units are. They are partly in Redis: with that away the
// rest of the room is shown without them.
func (r *room) addBooks(ctx context.Context, v *warRoomView, ids []int64) {
	ctx, cancel := context.WithTimeout(ctx, roomBooks)
	defer cancel()
	books, err := r.books(ctx, ids...)
	all := int64(0)
	for i, id := range ids {
		b, ok := books[id]
		if !ok {
			continue
		}
		item := &v.Items[i]
		item.Loaded, item.Queued, item.Books = b.State.Ready(), b.State.Queued(), new(booksOf(&b.Row))
		v.Queued += item.Queued
		all += max(b.Difference, -b.Difference)
	}
	if err == nil {
		v.Difference = &all
	}
}

// addCurve adds the attempts over time. The points before fresh are those of the last
// look.
func (r *room) addCurve(ctx context.Context, v *warRoomView, now time.Time, ids []int64) (fresh int, err error) {
	v.Curve.Points = []warRoomPoint{}
	if len(v.Sessions) == 0 {
		v.Curve.From, v.Curve.Until, v.Curve.Step, v.Curve.Whole = v.At, v.At, 1, true
		return 0, nil
	}
	first, last := time.Time(v.Sessions[0].OpensAt), time.Time(v.Sessions[0].ClosesAt)
	for _, s := range v.Sessions[1:] {
		if time.Time(s.OpensAt).Before(first) {
			first = time.Time(s.OpensAt)
		}
		if time.Time(s.ClosesAt).After(last) {
			last = time.Time(s.ClosesAt)
		}
	}
	first = first.Add(-roomBefore)
	until := now.Add(-roomCounted)
	if over := last.Add(roomAfter); over.Before(until) {
		until = over
	}
	from := first
	if cut := until.Add(-roomAtMost); from.Before(cut) {
		from = cut
	}
	step := time.Duration(report.StepFor(until.Sub(from))) * time.Second
	from = from.Truncate(step)
	items, _ := json.Marshal(ids) // numbers
	of, tail := curveOf{string(items), first, step}, now.Add(-roomLate).Truncate(step)
	if of != r.of {
		r.points, r.busiest, tail = nil, nil, from
	}
	if tail.Before(from) { // long before the opening
		tail = from
	}
	span := tally.Span{From: tail, Until: now, Subjects: ids}
	steps, err := tally.StageCurve(ctx, r.deps.DB, rush.StageAnswers, step, span)
	if err != nil {
		return 0, err
	}
	if err := r.seeBusiest(ctx, span); err != nil {
		return 0, err
	}
	r.of = of
	begin, _ := slices.BinarySearchFunc(r.points, from, byTime)
	fresh, _ = slices.BinarySearchFunc(r.points, tail, byTime)
	// A new slice: the documents of earlier looks have the old one.
	points := slices.Clone(r.points[begin:max(begin, fresh)])
	fresh = len(points)
	for _, p := range steps {
		points = append(points, warRoomPoint{wire.Time(p.At), p.Counts[rush.StageAnswers]})
	}
	r.points = points
	v.Busiest = r.busiest
	v.Curve = warRoomCurve{Whole: true, From: wire.Time(from), Until: wire.Time(until), Step: int(step.Seconds()), Points: append(v.Curve.Points, points...)}
	return fresh, nil
}

func byTime(p warRoomPoint, at time.Time) int { return time.Time(p.At).Compare(at) }

// seeBusiest compares the busiest second so far with those of a span.
func (r *room) seeBusiest(ctx context.Context, of tally.Span) error {
	at, n, ok, err := tally.BusiestSecond(ctx, r.deps.DB, rush.StageAnswers, of)
	if err == nil && ok && (r.busiest == nil || n > r.busiest.Attempts) {
		r.busiest = &warRoomSecond{wire.Time(at), n}
	}
	return err
}

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

type warRoomSession struct {
	ID       wire.ID   `json:"id"`
	Name     string    `json:"name"`
	OpensAt  wire.Time `json:"opens_at"`
	ClosesAt wire.Time `json:"closes_at"`
}

type warRoomItem struct {
	ID        wire.ID      `json:"id"`
	SessionID wire.ID      `json:"session_id"`
	SKU       string       `json:"sku"`
	Title     string       `json:"title"`
	Spec      string       `json:"spec"`
	Paused    bool         `json:"paused" doc:"The item by itself is paused"`
	Admission *int32       `json:"admission" nullable:"true" doc:"Attempts a second that are let in evenly, on all instances together; null is all"`
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

func (s *Service) warRoomRoutes(api httpx.API) {
	const path = operator.Base + "/activities/{id}/war-room"
	op := operator.Read(path, "get-war-room", "What to watch during an activity: attempts, units, lag, books and alarms, of all instances")
	op.Description = "About the sessions that are open, or else those whose opening or end is nearest. " +
		"Counted on every instance and merged, up to two seconds ago."
	httpx.Register(api, op, func(ctx context.Context, in *operator.ByID) (*operator.Body[warRoomView], error) {
		return operator.Answer(in.ID, func(id int64) (warRoomView, error) { return s.rooms.once(ctx, id, s.openRoom(id)) })
	})
	const live = path + "/live"
	op = operator.Read(live, "follow-war-room", "An activity's war room every second, as server-sent events")
	op.Class, op.Scope = httpx.Events, ""
	op.Description = "Events without a name or an id, one at once and then one every second: the `data` of each is the JSON document that " +
		"GET /api/v1/admin/activities/{id}/war-room answers, in one line. The curve of the first has all points (`whole`), that of the others " +
		"the latest ones, unless its step has changed. The stream ends after ten minutes, with its token, or when the server stops; connect again."
	httpx.Register(api, op, func(ctx context.Context, in *operator.ByID) (*huma.StreamResponse, error) {
		id, err := httpx.ParseID(in.ID)
		if err != nil {
			return nil, err
		}
		return s.rooms.stream(ctx, id, s.stopping, s.openRoom(id))
	})
	describeEvents[warRoomView](api, live, "data: {\"activity_id\":\"7\",\"attempts\":1200,\"answers\":{\"queued\":100,\"all-held\":1100},…}\n\n")
}
