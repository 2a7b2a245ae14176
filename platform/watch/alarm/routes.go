package alarm

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

// Routes registers the operators' list of alarms, its acknowledgement, and the test of
// notifier's addresses.
func Routes(rt *httpx.Router, pool *pgxpool.Pool, notifier *Notifier) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/alarms", ID: "list-alarms", Tag: "operator", Role: auth.Viewer,
		Summary: "Alarms, the newest incident first",
		Description: "Problems that need an operator's attention. Alarms are counted rather than repeated; alarms that have not occurred for a long time are deleted (`--keep-records`).\n\n" +
			codeTable(),
	}, func(ctx context.Context, in *listInput) (*httpx.PageOutput[Alarm], error) { return list(ctx, pool, in) })
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/alarms/{id}/acknowledge", ID: "acknowledge-alarm", Tag: "operator", Role: auth.Operator,
		Summary: "Acknowledge an alarm", Audit: "alarm.acknowledge", NoKey: httpx.SetsState,
		Description: "The first name stays: a second acknowledgement returns the alarm unchanged. An alarm that returns after an hour's silence " +
			"is a new incident and open again.",
	}, func(ctx context.Context, in *acknowledgeInput) (*httpx.Output[Alarm], error) {
		return acknowledge(ctx, pool, in)
	})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/alarms/test", ID: "test-alarms", Tag: "operator", Role: auth.Operator,
		Summary: "Send a test message to each address of --alarm-to and --alarm-then, and to the webhook", Audit: "alarm.test",
		NoKey:       "each test is a message of its own",
		Description: "Answers 200 also if an address did not accept it: each has its own result, in the order of the settings. The list is empty if the settings name no address.",
	}, func(ctx context.Context, _ *struct{}) (*httpx.Output[testResults], error) {
		found := testResults{notifier.Test(ctx, httpx.LanguageFrom(ctx))}
		err := pg.InTx(ctx, pool, func(tx pgx.Tx) error { return audit.Note(ctx, tx, "alarm.test", "alarm addresses", found) })
		if err != nil {
			return nil, unreachable(err)
		}
		return httpx.Answer(found), nil
	})
}

// testResults are the results of a test.
type testResults struct {
	Data []Tested `json:"data" nullable:"false"`
}

type listInput struct {
	Open     bool   `query:"open" doc:"Only unacknowledged alarms"`
	Severity string `query:"severity" enum:"warning,critical,info" doc:"Only this severity"`
	Code     string `query:"code" maxLength:"64" doc:"Only this code"`
	httpx.ChangesInput
}

// list returns a page of alarms. An unknown code is refused: an empty page would
// look as if all were well.
func list(ctx context.Context, pool *pgxpool.Pool, in *listInput) (*httpx.PageOutput[Alarm], error) {
	if in.Code != "" && defined[Code(in.Code)] == nil {
		return nil, fault.Plain(fault.Invalid,
			fault.T(`"{code}" is not an alarm code; the description of this route lists them.`,
				"“{code}”不是告警代码，全部代码见该接口的说明。", "code", in.Code))
	}
	return httpx.PageOfChanges(in.ChangesInput, func(p httpx.PageInput) ([]Alarm, error) {
		before, err := ParsePlace(p.Cursor)
		if err != nil {
			return nil, httpx.ErrCursor.Because(err)
		}
		rows, err := List(ctx, pool, Filter{
			Open: in.Open, Severity: Severity(in.Severity), Code: Code(in.Code), Before: before, Limit: p.Ask(),
		})
		return rows, unreachable(err)
	}, changed, func(a Alarm) Alarm {
		a.NextAction = a.Next()[httpx.LanguageFrom(ctx)]
		return a
	}, func(a Alarm) string { return After(a).String() })
}

// changed is when an alarm last occurred or was acknowledged.
func changed(a Alarm) time.Time {
	if a.AcknowledgedAt != nil && a.AcknowledgedAt.After(a.LastSeen) {
		return *a.AcknowledgedAt
	}
	return a.LastSeen
}

type acknowledgeInput struct {
	ID   string `path:"id" doc:"The alarm's id"`
	Body *struct {
		Name string `json:"name,omitempty" maxLength:"64" doc:"Who handles it; by default the operator's user id" example:"Li Wei"`
	} `nameHint:"AlarmAcknowledgement"`
}

// handled is what the audit log keeps of an alarm before and after its acknowledgement.
type handled struct {
	Code           Code   `json:"code"`
	About          string `json:"about"`
	AcknowledgedBy string `json:"acknowledged_by"`
}

// acknowledge records who handles an alarm, with its audit record. Only a change is
// audited: a second operator gets the first one's name.
func acknowledge(ctx context.Context, pool *pgxpool.Pool, in *acknowledgeInput) (*httpx.Output[Alarm], error) {
	id, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	by := "user " + httpx.FormatID(auth.From(ctx).UserID)
	if in.Body != nil && in.Body.Name != "" {
		by = in.Body.Name
	}
	var now Alarm
	err = pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		a, changed, err := Acknowledge(ctx, tx, id, by)
		if now = a; err != nil || !changed {
			return err
		}
		return audit.Record(ctx, tx, "alarm.acknowledge", "alarm "+httpx.FormatID(id),
			audit.Change{Before: handled{Code: a.Code, About: a.Subject}, After: handled{a.Code, a.Subject, by}})
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Plain(fault.NotFound,
			fault.T("There is no such alarm; old ones are deleted.", "没有该告警，旧告警会被删除。"))
	}
	if err != nil {
		return nil, unreachable(err)
	}
	return httpx.Answer(now), nil
}

// unreachable is the answer to an operator whose query failed.
func unreachable(err error) error { return httpx.Unreachable(fault.T("Alarms", "告警"), err) }
