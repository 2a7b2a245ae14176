package deadletters

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/bus"
	"stampede/platform/watch/deadletters/internal/deadlettersdb"
	"stampede/platform/watch/messages"
)

const (
	// redriveAtMost bounds one request for all letters of a consumer: each is a
	// separate transaction, and a hundred complete within the time limit of a
	// request.
	redriveAtMost = 100
	// redriveDeadline is the time limit of a request; the answer reports what is
	// left.
	redriveDeadline = 20 * time.Second
)

type routes struct {
	pool *pgxpool.Pool
	bus  *bus.Bus
}

// Routes registers the operators' routes for dead letters: list them, read one,
// redrive one or all of a consumer.
func Routes(rt *httpx.Router, pool *pgxpool.Pool, b *bus.Bus) {
	r := routes{pool, b}
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/dead-letters", ID: "list-dead-letters", Tag: "operator", Role: auth.Viewer,
		Summary:     "Messages that a consumer gave up on, newest first",
		Description: "Each has the alarm `dead-letter` about its consumer. They are kept for `--keep-records`. Events that were not sent at all are `messages`.",
	}, r.list)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/dead-letters/{id}", ID: "get-dead-letter", Tag: "operator", Role: auth.Viewer,
		Summary: "A dead letter with its payload and its whole error",
	}, r.get)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/dead-letters/{id}/redrive", ID: "redrive-dead-letter", Tag: "operator", Role: auth.Operator,
		Summary: "Redrive a dead letter to its consumer", Audit: "dead-letter.redrive", NoKey: httpx.KeepsItsID,
		Description: "Its effect happens once, however often it is sent, because it keeps the message's id. The letter is removed, so a second " +
			"request gets `not-found`; if the consumer gives up again, there is a new letter.",
		Refuses: []*fault.Error{bus.ErrUnknown, bus.ErrFull, bus.ErrUnhealthy},
	}, r.redrive)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/dead-letters/redrive", ID: "redrive-dead-letters", Tag: "operator", Role: auth.Operator,
		Summary: "Redrive all dead letters of a consumer, the oldest first", Audit: "dead-letter.redrive", NoKey: httpx.KeepsItsID,
		Description: "At most 100 at a time; `left` says how many remain, and repeating the request continues with them. It stops at the first " +
			"one that cannot be sent.",
		Refuses: []*fault.Error{bus.ErrUnknown, bus.ErrFull, bus.ErrUnhealthy},
	}, r.redriveAll)
}

// DeadLetterView is a dead letter in a list. It is exported because huma requires
// that of embedded fields.
type DeadLetterView struct {
	ID        ids.ID `json:"id"`
	Consumer  string `json:"consumer" example:"inventory-release-closed" doc:"The consumer that gave up"`
	Subject   string `json:"subject" doc:"The subject that the message was published on" example:"events.example"`
	MessageID string `json:"message_id" doc:"The message's id, kept when it is redriven" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f65"`
	Error     string `json:"error" doc:"Why the consumer gave up; in a list, its beginning"`
	Attempts  int    `json:"attempts" doc:"Number of delivery attempts"`
	Bytes     int    `json:"bytes" doc:"Size of the payload"`
	CreatedAt string `json:"created_at" format:"date-time" doc:"When the consumer gave up"`
}

func view(d Letter) DeadLetterView {
	return DeadLetterView{d.ID, d.Consumer, d.Subject, d.MessageID, d.Error, int(d.Attempts), len(d.Payload), httpx.Moment(d.CreatedAt)}
}

type listInput struct {
	Consumer string `query:"consumer" maxLength:"128" doc:"Only letters of this consumer"`
	httpx.ChangesInput
}

// list returns a page of letters without their payloads, which may be large.
func (r routes) list(ctx context.Context, in *listInput) (*httpx.PageOutput[DeadLetterView], error) {
	made := func(d Letter) time.Time { return d.CreatedAt }
	read := func(p httpx.PageInput) ([]Letter, error) {
		f := Filter{Consumer: in.Consumer, Limit: p.Ask()}
		if p.Cursor != "" {
			before, err := ids.Parse(p.Cursor)
			if err != nil || before.IsZero() {
				return nil, httpx.ErrCursor.Because(err)
			}
			f.Before = before
		}
		letters, err := List(ctx, r.pool, f)
		return httpx.MadeSince(letters, in.UpdatedFrom, made), unreachable(err)
	}
	inList := func(d Letter) DeadLetterView {
		v := view(d)
		v.Error = messages.Beginning(v.Error)
		return v
	}
	return httpx.PageOfChanges(in.ChangesInput, read, made, inList, func(d Letter) string { return d.ID.String() })
}

type letterInput struct {
	ID string `path:"id" maxLength:"64" doc:"The dead letter's id"`
}

func (in *letterInput) id() (ids.ID, error) {
	id, err := ids.Parse(in.ID)
	if err != nil {
		return ids.ID{}, ErrNotFound.Because(err)
	}
	return id, nil
}

type letterOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		DeadLetterView
		messages.Content
	} `nameHint:"DeadLetterDetail"`
}

// get returns one letter with its payload, so that an operator can decide whether
// redriving it can help.
func (r routes) get(ctx context.Context, in *letterInput) (*letterOutput, error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	d, err := Get(ctx, r.pool, id)
	if err != nil {
		return nil, unreachable(err)
	}
	out := &letterOutput{CacheControl: httpx.NoStore}
	out.Body.DeadLetterView, out.Body.Content = view(d), messages.ContentOf(d.Payload)
	return out, nil
}

type redriveOutput struct {
	Body struct {
		Redriven int `json:"redriven" doc:"Letters that were sent again"`
		Left     int `json:"left" doc:"Letters that this consumer has now, including those given up again"`
	} `nameHint:"RedriveResult"`
}

// redrive sends one letter again. It reads the letter first, because it is gone
// afterwards and its consumer is needed to count the rest.
func (r routes) redrive(ctx context.Context, in *letterInput) (*redriveOutput, error) {
	id, err := in.id()
	if err != nil {
		return nil, err
	}
	d, err := Get(ctx, r.pool, id)
	if err == nil {
		err = Redrive(ctx, r.pool, r.bus, id)
	}
	if err != nil {
		return nil, unreachable(err)
	}
	out := new(redriveOutput)
	out.Body.Redriven = 1
	return r.told(ctx, out, d.Consumer)
}

type redriveAllInput struct {
	Body struct {
		Consumer string `json:"consumer" minLength:"1" maxLength:"128" doc:"The consumer whose letters are redriven" example:"inventory-release-closed"`
	} `nameHint:"RedriveRequest"`
}

// redriveAll redrives the letters that exist now: one that is given up again
// meanwhile waits for the next request, so that a consumer that is still broken does
// not keep this one busy.
func (r routes) redriveAll(ctx context.Context, in *redriveAllInput) (*redriveOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, redriveDeadline)
	defer cancel()
	letters, err := deadlettersdb.New(r.pool).DeadLettersOf(ctx, deadlettersdb.DeadLettersOfParams{Consumer: in.Body.Consumer, AtMost: redriveAtMost})
	if err != nil {
		return nil, unreachable(err)
	}
	out := new(redriveOutput)
	for _, id := range letters {
		err := Redrive(ctx, r.pool, r.bus, id)
		switch {
		case errors.Is(err, ErrNotFound): // another operator redrives them too
			continue
		case err != nil && out.Body.Redriven == 0:
			return nil, unreachable(err)
		case err != nil:
			// Some have already been sent, which the answer must report, even if the
			// deadline ended the rest.
			return r.told(context.WithoutCancel(ctx), out, in.Body.Consumer)
		}
		out.Body.Redriven++
	}
	return r.told(ctx, out, in.Body.Consumer)
}

// told completes an answer with the number of the consumer's letters left.
func (r routes) told(ctx context.Context, out *redriveOutput, consumer string) (*redriveOutput, error) {
	left, err := deadlettersdb.New(r.pool).CountDeadLettersOf(ctx, consumer)
	out.Body.Left = int(left)
	return out, unreachable(err)
}

// unreachable is the answer to an operator whose query failed.
func unreachable(err error) error { return httpx.Unreachable(fault.T("Dead letters", "死信"), err) }
