package funnel

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/proof/runs"
	"stampede/platform/watch/tally"
	"stampede/seckill/internal/operator"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/internal/wire"
	"stampede/seckill/plan"
	"stampede/seckill/report"
	"stampede/seckill/rush"
	"stampede/seckill/settlement"
)

const (
	// beforeAlarms is how long before the opening an alarm belongs to the report: an
	// hour, in which preparation fails.
	beforeAlarms = time.Hour
	// maxAlarms bounds those of the report.
	maxAlarms = 100
)

type reportInput struct {
	operator.ByID
	Accept   string `header:"Accept" hidden:"true"`
	Language string `header:"Accept-Language" hidden:"true"`
	Format   string `query:"format" enum:"json,html" doc:"html is one page to print; by default as Accept asks"`
	Kept     bool   `query:"kept" doc:"The report that was kept when the session was settled, instead of one of this moment"`
}

func (s *Service) reportRoute(api httpx.API) {
	const path = operator.Base + "/sessions/{id}/report"
	op := operator.Read(path, "get-session-report", "What a session was: answers, orders, latency, alarms, proof of the books, and what to do better", settlement.ErrNotSettled)
	op.Description = "As JSON, or as one HTML page in the language of Accept-Language. Complete once the last payment window is over."
	httpx.Register(api, op, func(ctx context.Context, in *reportInput) (*httpx.File, error) {
		id, err := httpx.ParseID(in.ID)
		if err != nil {
			return nil, err
		}
		r, raw := new(report.Report), []byte(nil)
		if in.Kept {
			if raw, err = settlement.Kept(ctx, s.deps.DB, id); err == nil {
				err = json.Unmarshal(raw, r)
			}
		} else if r, err = s.Report(ctx, id); err == nil {
			raw, err = json.Marshal(r)
		}
		if err != nil {
			return nil, fmt.Errorf("funnel: report on session %d: %w", id, err)
		}
		out := &httpx.File{CacheControl: httpx.NoStore, ContentType: "application/json"}
		if in.Format == "html" || in.Format == "" && strings.Contains(in.Accept, "text/html") {
			out.ContentType = "text/html; charset=utf-8"
			out.Body, err = r.HTML(httpx.LanguageOf(in.Language), s.deps.Zone)
			return out, err
		}
		out.Body = raw
		return out, nil
	})
	doc := api.Huma.OpenAPI()
	doc.Paths[path].Get.Responses["200"].Content = map[string]*huma.MediaType{
		"application/json": {Schema: doc.Components.Schemas.Schema(reflect.TypeFor[report.Report](), true, "SessionReport")},
		"text/html":        {Schema: &huma.Schema{Type: huma.TypeString}},
	}
}

// Report is a session as it is at this moment.
func (s *Service) Report(ctx context.Context, id int64) (*report.Report, error) {
	session, err := plan.ReadSession(ctx, s.deps.DB, id)
	if err != nil {
		return nil, err
	}
	activity, err := seckilldb.New(s.deps.DB).Activity(ctx, int64(session.ActivityID))
	if err != nil {
		return nil, plan.OrNotFound(err, plan.ErrNoSession, "read activity")
	}
	opens, closes := time.Time(session.OpensAt).UTC(), time.Time(session.ClosesAt).UTC()
	if activity.Status == plan.StatusTerminated && activity.UpdatedAt.Before(closes) { // its last change is its end
		closes = activity.UpdatedAt.UTC()
		if closes.Before(opens) {
			closes = opens
		}
	}
	r := &report.Report{
		SessionID: wire.ID(id), Activity: activity.Name, Name: session.Name, OpensAt: opens, ClosesAt: closes, MadeAt: s.deps.Clock.Now().UTC(), Items: []report.ItemOutcome{}, Curve: []report.CurveStep{}, Alarms: []report.SessionAlarm{},
	}
	ids := make([]int64, len(session.Items))
	for i := range session.Items {
		ids[i] = int64(session.Items[i].ID)
	}
	totals, err := tally.Totals(ctx, s.deps.DB, ids...)
	if err != nil {
		return nil, err
	}
	r.Funnel = tally.Sum(totals)
	for i := range session.Items {
		item, err := s.reportItem(ctx, &session.Items[i], opens, totals[ids[i]])
		if err != nil {
			return nil, err
		}
		r.Items = append(r.Items, item)
	}
	// Orders end after the session: paid or closed within their payment window.
	window := plan.PayWindow(&activity, &seckilldb.SeckillSession{OpensAt: opens, ClosesAt: time.Time(session.ClosesAt)})
	until := closes.Add(max(24*time.Hour, window))
	if r.MadeAt.Before(until) {
		until = r.MadeAt
	}
	from := opens.Add(-beforeOpening)
	r.Step = report.StepFor(until.Sub(from))
	points, err := s.points(ctx, from, until, time.Duration(r.Step)*time.Second, ids...)
	if err != nil {
		return nil, err
	}
	for _, p := range points {
		r.Curve = append(r.Curve, report.StepOf(p))
	}
	alarms, err := alarm.List(ctx, s.deps.DB, alarm.Filter{Before: alarm.OpenedBefore(until), Limit: maxAlarms})
	if err != nil {
		return nil, fmt.Errorf("funnel: read alarms: %w", err)
	}
	for _, a := range alarms {
		if a.LastSeen.After(opens.Add(-beforeAlarms)) {
			r.Alarms = append(r.Alarms, report.SessionAlarm{
				Code: a.Code, Subject: a.Subject, Severity: a.Severity, Detail: a.Detail, NextAction: a.NextAction, OpenedAt: a.OpenedAt.UTC(), LastSeen: a.LastSeen.UTC(), Incident: a.Incident,
			})
		}
	}
	latest, ok, err := runs.Latest(ctx, s.deps.DB)
	if err != nil {
		return nil, err
	}
	if ok {
		r.Proof = &report.LatestProof{ID: latest.ID, Status: latest.Status, EndedAt: latest.EndedAt, SHA256: latest.SHA256}
	}
	r.Finish()
	return r, nil
}

// reportItem reads one item's share.
func (s *Service) reportItem(ctx context.Context, of *plan.ItemView, opens time.Time, counts tally.Counts) (report.ItemOutcome, error) {
	item := report.ItemOutcome{ID: of.ID, Title: of.Title, Units: int64(pg.ValueOr(of.OnSale, 0)), Unlimited: of.Unlimited, Counts: counts}
	if counts == nil {
		item.Counts = tally.Counts{}
	}
	moments, err := tally.Moments(ctx, s.deps.DB, int64(item.ID))
	if err != nil {
		return item, err
	}
	if m, ok := moments[rush.MomentGranted]; ok {
		item.GrantedAt = new(m.First.UTC())
	}
	if m, ok := moments[rush.MomentEmptied]; ok {
		item.EmptiedAt, item.SecondsToEmpty = new(m.First.UTC()), new(max(0, m.First.Sub(opens).Seconds()))
	}
	row, ok, err := s.deps.Stock.Book(ctx, int64(item.ID))
	if err != nil {
		return item, fmt.Errorf("funnel: read books of item %d: %w", item.ID, err)
	}
	if ok {
		item.Sold, item.Held, item.Left = row.Sold, row.Held, row.Available+row.Backup
		item.WrittenOff, item.Difference = row.WrittenOff, row.Difference
	}
	return item, nil
}
