package alarm

import (
	"context"
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

// Routes registers the operators' list of alarms and its acknowledgement.
func Routes(rt *httpx.Router, pool *pgxpool.Pool) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/alarms", ID: "list-alarms", Tag: "operator", Role: auth.Viewer,
		Summary: "Alarms, the newest incident first",
		Description: "What needs a person's eye. Alarms are counted rather than repeated; what was not seen for a long time is removed (`--keep-records`).\n\n" +
			codeTable(),
		Problems: map[int]string{http.StatusUnprocessableEntity: "invalid", http.StatusServiceUnavailable: "unavailable"},
	}, func(ctx context.Context, in *listInput) (*httpx.PageOutput[Alarm], error) { return list(ctx, pool, in) })
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/alarms/{id}/acknowledge", ID: "acknowledge-alarm", Tag: "operator", Role: auth.Operator,
		Summary: "Say who looks after an alarm",
		Description: "The first name stays: acknowledging again answers with the alarm unchanged. An alarm that returns after an hour's silence " +
			"is a new incident and open again.",
		Problems: map[int]string{
			http.StatusNotFound: "not-found", http.StatusUnprocessableEntity: "invalid", http.StatusServiceUnavailable: "unavailable",
		},
	}, func(ctx context.Context, in *acknowledgeInput) (*httpx.Output[Alarm], error) {
		return acknowledge(ctx, pool, in)
	})
}

type listInput struct {
	Open     bool   `query:"open" doc:"Only what nobody has acknowledged"`
	Severity string `query:"severity" enum:"warning,critical" doc:"Only these"`
	Code     string `query:"code" maxLength:"64" doc:"Only this code"`
	httpx.PageInput
}

// list answers a page of alarms. A code that is not in the list is refused: an
// empty page would read as all being well.
func list(ctx context.Context, pool *pgxpool.Pool, in *listInput) (*httpx.PageOutput[Alarm], error) {
	if in.Code != "" && defined[Code(in.Code)] == nil {
		return nil, fault.Plainf(fault.Invalid, "%q is no alarm code; the description of this route lists them.", in.Code)
	}
	before, err := ParsePlace(in.Cursor)
	if err != nil {
		return nil, httpx.ErrCursor.Because(err)
	}
	rows, err := List(ctx, pool, Filter{
		Open: in.Open, Severity: Severity(in.Severity), Code: Code(in.Code), Before: before, Limit: in.Ask(),
	})
	if err != nil {
		return nil, unreachable(err)
	}
	return httpx.PageOf(in.PageInput, rows, func(a Alarm) Alarm { return a }, func(a Alarm) string { return After(a).String() }), nil
}

type acknowledgeInput struct {
	ID   string `path:"id" doc:"The alarm's id"`
	Body *struct {
		Name string `json:"name,omitempty" maxLength:"64" doc:"Who looks after it. Left out, it is the operator's user id" example:"Li Wei"`
	} `nameHint:"AlarmAcknowledgement"`
}

// acknowledge notes who looks after an alarm, with its audit record. Only the
// change is recorded: whoever comes second is told who was first.
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
			map[string]any{"name": by, "code": a.Code, "about": a.Subject})
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fault.Plain(fault.NotFound, "There is no such alarm; old ones are removed.")
	}
	if err != nil {
		return nil, unreachable(err)
	}
	return httpx.Answer(now), nil
}

// unreachable is what the reader is told of a failed query.
func unreachable(err error) error { return httpx.Unreachable("Alarms", err) }
