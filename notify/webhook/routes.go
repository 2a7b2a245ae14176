package webhook

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/notify/webhook/internal/webhookdb"
	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/idempotency"
	"stampede/platform/store/outbox"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

const (
	// maxWebhooks bounds the goroutines and queries of delivery.
	maxWebhooks = 20
	// secretBytes is what Standard Webhooks advises: 24 to 64.
	secretBytes = 32
	// formerFor is how long deliveries are signed with the former secret too.
	formerFor = 24 * time.Hour
	// secretPrefix is Standard Webhooks' prefix of a secret.
	secretPrefix = "whsec_"
)

var (
	errNone    = fault.Plain(fault.NotFound, fault.T("There is no such webhook.", "没有该 Webhook。"))
	errNoEvent = fault.Plain(fault.NotFound, fault.T("There is no such event; events are kept for 30 days.", "没有该事件，事件保留 30 天。"))
	errFull    = fault.New(fault.Conflict, "webhooks-full", fault.T("There are as many webhooks as there may be", "Webhook 数量已达上限"),
		fault.T("A shop has at most {most} webhooks.", "最多 {most} 个 Webhook。", "most", strconv.Itoa(maxWebhooks)),
		fault.T("Remove one that is no longer needed, or let one receiver pass events on.", "请移除不再需要的，或由一个接收方转发事件。"))
)

// wrong refuses what is at a place of the request.
func wrong(location string, says fault.Text) *fault.Error {
	return fault.Plain(fault.Invalid, says).At(location, says)
}

func errType(location, name string) *fault.Error {
	return wrong(location, fault.T(`"{name}" is not an event type; the types are {types}.`, "“{name}”不是事件类型，可选 {types}。",
		"name", name, "types", strings.Join(types, ", ")))
}

// unreachable is the answer to a caller whose query failed.
func unreachable(err error) error {
	return httpx.Unreachable(fault.T("The events", "事件"), err)
}

// Webhook is where events are posted, as operators see it.
type Webhook struct {
	ID          string   `json:"id" example:"3"`
	URL         string   `json:"url" example:"https://shop.example/stampede"`
	Description string   `json:"description" example:"The warehouse"`
	Types       []string `json:"types" nullable:"false" doc:"The types of events that it gets; empty for all" example:"[\"order.paid\"]"`
	Enabled     bool     `json:"enabled" doc:"Without it events wait, for 30 days"`
	State       string   `json:"state" enum:"working,retrying,failing,disabled" doc:"retrying: the last event was refused; failing: several in a row were, and one is tried at a time while the others wait"`
	Failures    int32    `json:"failures" doc:"In a row"`
	FailingFrom string   `json:"failing_from,omitempty" format:"date-time"`
	NextTryAt   string   `json:"next_try_at,omitempty" format:"date-time"`
	LastError   string   `json:"last_error,omitempty"`
	DeliveredAt string   `json:"delivered_at,omitempty" format:"date-time" doc:"The last event that was taken"`
	Waiting     int64    `json:"waiting" doc:"Events that are tried again, with those behind them about the same order"`
	Behind      int64    `json:"behind" doc:"An upper bound of the messages that it has not been sent yet; it may stay above 0 when all were. One may carry many orders"`
	SecretUntil string   `json:"former_secret_until,omitempty" format:"date-time" doc:"Until then events are signed with the former secret too"`
	CreatedAt   string   `json:"created_at" format:"date-time"`
	UpdatedAt   string   `json:"updated_at" format:"date-time"`
}

// Secret is a webhook with its secret, which is shown once.
type Secret struct {
	Webhook
	Secret string `json:"secret" doc:"Shown only now: the receiver verifies signatures with it, as Standard Webhooks describes" example:"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="`
}

// standing is what rows alone do not say.
type standing struct {
	last    int64           // place that was given
	waiting map[int64]int64 // by webhook
}

func (s *Service) standing(ctx context.Context) (st standing, err error) {
	if st.last, err = outbox.LastPlace(ctx, s.deps.DB); err != nil {
		return st, err
	}
	rows, err := webhookdb.New(s.deps.DB).CountWaiting(ctx)
	st.waiting = make(map[int64]int64, len(rows))
	for _, r := range rows {
		st.waiting[r.WebhookID] = r.Waiting
	}
	return st, err
}

func (st standing) view(w webhookdb.NotifyWebhook) Webhook {
	v := Webhook{
		ID: httpx.FormatID(w.ID), URL: w.Url, Description: w.Description, Types: w.Types, Enabled: w.Enabled, State: "working",
		Failures: w.Failures, FailingFrom: httpx.MomentOrNone(w.FailingSince), NextTryAt: httpx.MomentOrNone(w.NextTry), LastError: w.LastError, DeliveredAt: httpx.MomentOrNone(w.DeliveredAt),
		Waiting: st.waiting[w.ID], Behind: max(0, st.last-w.Place+1), CreatedAt: httpx.Moment(w.CreatedAt), UpdatedAt: httpx.Moment(w.UpdatedAt),
	}
	if w.FormerUntil != nil && w.FormerUntil.After(time.Now()) {
		v.SecretUntil = httpx.MomentOrNone(w.FormerUntil)
	}
	switch {
	case !w.Enabled:
		v.State = "disabled"
	case w.Failures >= failuresOpen:
		v.State = "failing"
	case w.Failures > 0:
		v.State = "retrying"
	}
	return v
}

// Routes registers the feed of events and the operators' routes of webhooks.
func (s *Service) Routes(rt *httpx.Router) {
	s.eventsRoute(rt.API)
	const path = "/api/v1/admin/webhooks"
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: path, ID: "list-webhooks", Tag: "operator", Role: auth.Viewer,
		Summary: "Webhooks with their state",
	}, s.list)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: path + "/{id}", ID: "get-webhook", Tag: "operator", Role: auth.Viewer,
		Summary: "A webhook with its state",
	}, s.get)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: path, ID: "add-webhook", Tag: "operator", Role: auth.Admin, Status: http.StatusCreated,
		Summary: "Post events to an address from now on", Audit: "webhook.add", Refuses: []*fault.Error{errFull},
		Description: "Each event is posted as JSON with the headers of Standard Webhooks, `webhook-id`, `webhook-timestamp` and `webhook-signature`. Answer 2xx " +
			"within 10 s. Any other answer, a redirect too, is tried again, more and more rarely, for a day; meanwhile later events about the same order wait behind it. " +
			"After several refusals in a row one event at a time is tried, and the others wait in the log, for 30 days. 410 disables the webhook. An event may come twice: " +
			"ignore an id that you have handled, and an order with a lower `version` than you have.",
	}, s.add)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPatch, Path: path + "/{id}", ID: "change-webhook", Tag: "operator", Role: auth.Admin,
		Summary: "Change, disable or enable a webhook", Audit: "webhook.change",
		Description: "One that was disabled goes on with the events that have come meanwhile.",
	}, s.change)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodDelete, Path: path + "/{id}", ID: "remove-webhook", Tag: "operator", Role: auth.Admin,
		Summary: "Remove a webhook with its log", Audit: "webhook.remove",
	}, s.remove)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: path + "/{id}/secret", ID: "renew-webhook-secret", Tag: "operator", Role: auth.Admin,
		Summary: "Give a webhook another secret", Audit: "webhook.secret", NoKey: "a repetition makes another secret, and the answer is the only one that shows it",
		Description: "For 24 hours events are signed with the former secret too.",
	}, s.renewSecret)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: path + "/{id}/test", ID: "test-webhook", Tag: "operator", Role: auth.Operator,
		Summary: "Post an event of the type webhook.test now", Audit: "webhook.test", NoKey: "a test is harmless, and a receiver knows it by its type",
	}, s.test)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: path + "/{id}/send", ID: "send-event", Tag: "operator", Role: auth.Operator,
		Summary: "Post an event again now", Audit: "webhook.send", NoKey: "the event keeps its id, by which a receiver knows it",
	}, s.send)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: path + "/{id}/attempts", ID: "list-webhook-attempts", Tag: "operator", Role: auth.Viewer,
		Summary:     "The last deliveries of a webhook, the newest first",
		Description: "The last 10,000 attempts are kept.",
	}, s.attempts)
	document(rt.API.Huma.OpenAPI())
}

type listInput struct{}

func (s *Service) list(ctx context.Context, _ *listInput) (*httpx.Output[httpx.Page[Webhook]], error) {
	rows, err := webhookdb.New(s.deps.DB).Webhooks(ctx)
	if err != nil {
		return nil, unreachable(err)
	}
	st, err := s.standing(ctx)
	if err != nil {
		return nil, unreachable(err)
	}
	page := httpx.Page[Webhook]{Data: []Webhook{}}
	for _, r := range rows {
		page.Data = append(page.Data, st.view(r))
	}
	return httpx.Answer(page), nil
}

func (s *Service) get(ctx context.Context, in *OneInput) (*httpx.Output[Webhook], error) {
	id, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	row, err := webhookdb.New(s.deps.DB).Webhook(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, errNone
	}
	if err != nil {
		return nil, unreachable(err)
	}
	return s.answer(ctx, row)
}

// wanted checks an address and types.
func (s *Service) wanted(address string, names []string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil, u.Host == "", u.User != nil, u.Fragment != "":
		return wrong("body.url", fault.T("url must be like https://shop.example/stampede, without user, password or fragment.", "url 须形如 https://shop.example/stampede，不含用户名、密码和 # 片段。"))
	case u.Scheme != "https" && u.Scheme != "http":
		return wrong("body.url", fault.T("url must begin with https://.", "url 须以 https:// 开头。"))
	case u.Scheme == "http" && !s.cfg.Private:
		return wrong("body.url", fault.T("url must begin with https://; http:// is allowed with --webhook-private only.", "url 须以 https:// 开头；仅在设置 --webhook-private 时允许 http://。"))
	}
	for _, name := range names {
		if !slices.Contains(types, name) {
			return errType("body.types", name)
		}
	}
	return nil
}

type addInput struct {
	idempotency.Header
	Body struct {
		URL         string   `json:"url" minLength:"1" maxLength:"2000" example:"https://shop.example/stampede"`
		Description string   `json:"description,omitempty" maxLength:"200"`
		Types       []string `json:"types,omitempty" maxItems:"40" nullable:"false" doc:"Types of events; left out, it gets all" example:"[\"order.paid\",\"order.refunded\"]"`
	} `nameHint:"WebhookAddition"`
}

func (s *Service) add(ctx context.Context, in *addInput) (*httpx.Output[Secret], error) {
	if err := s.wanted(in.Body.URL, in.Body.Types); err != nil {
		return nil, err
	}
	var out Secret
	err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) (err error) {
		out, err = idempotency.Once(ctx, tx, in.Key, "webhook.add", in.Body, func() (Secret, error) { return s.insert(ctx, tx, in) })
		return err
	})
	if err != nil {
		return nil, unreachable(err)
	}
	return s.show(out)
}

// show opens the secret of an answer, which is stored sealed.
func (s *Service) show(sealed Secret) (*httpx.Output[Secret], error) {
	raw, err := base64.StdEncoding.DecodeString(sealed.Secret)
	if err != nil {
		return nil, fmt.Errorf("webhook: read the answer's secret: %w", err)
	}
	secret, err := s.open(raw)
	if err != nil {
		return nil, err
	}
	sealed.Secret = secretPrefix + base64.StdEncoding.EncodeToString(secret)
	return httpx.Answer(sealed), nil
}

// insert adds a webhook that gets the events from now on. Its answer has the secret sealed.
func (s *Service) insert(ctx context.Context, tx pgx.Tx, in *addInput) (out Secret, err error) {
	q := webhookdb.New(tx)
	if err := q.LockWebhooks(ctx); err != nil {
		return out, err
	}
	switch n, err := q.CountWebhooks(ctx); {
	case err != nil:
		return out, err
	case n >= maxWebhooks:
		return out, errFull
	}
	last, err := outbox.LastPlace(ctx, tx)
	if err != nil {
		return out, err
	}
	row, err := q.AddWebhook(ctx, webhookdb.AddWebhookParams{
		Url: in.Body.URL, Description: in.Body.Description, Types: append([]string{}, in.Body.Types...), Enabled: true, Secret: s.newSecret(), Place: last + 1,
	})
	if err != nil {
		return out, fmt.Errorf("webhook: add: %w", err)
	}
	view := standing{last: last}.view(row)
	return Secret{view, base64.StdEncoding.EncodeToString(row.Secret)}, audit.Record(ctx, tx, "webhook.add", subjectOf(row.ID), audit.Change{After: detail(row)})
}

// newSecret is a new secret, sealed.
func (s *Service) newSecret() []byte {
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // never fails
	return s.keys.Seal(secret, aboutSecret)
}

// open returns a secret that was sealed with one of the signing keys.
func (s *Service) open(sealed []byte) ([]byte, error) {
	secret, ok := s.keys.Open(sealed, aboutSecret)
	if !ok {
		return nil, errors.New("webhook: the secret was sealed with a signing key that is gone; renew it")
	}
	return secret, nil
}

// subjectOf names a webhook in the audit log and in alarms.
func subjectOf(id int64) string { return "webhook " + httpx.FormatID(id) }

// detail is what the audit log keeps of a webhook.
func detail(w webhookdb.NotifyWebhook) map[string]any {
	return map[string]any{"url": w.Url, "description": w.Description, "types": w.Types, "enabled": w.Enabled}
}

// OneInput names a webhook. It is exported because huma requires that of embedded fields.
type OneInput struct {
	ID string `path:"id" doc:"The webhook's id"`
}

type changeInput struct {
	OneInput
	Body struct {
		URL         *string   `json:"url,omitempty" minLength:"1" maxLength:"2000"`
		Description *string   `json:"description,omitempty" maxLength:"200"`
		Types       *[]string `json:"types,omitempty" maxItems:"40" nullable:"false"`
		Enabled     *bool     `json:"enabled,omitempty"`
	} `nameHint:"WebhookChange"`
}

// locked runs do with a webhook's row locked, and answers with the row that do returns.
func (s *Service) locked(ctx context.Context, raw string, do func(tx pgx.Tx, q *webhookdb.Queries, had webhookdb.NotifyWebhook) (webhookdb.NotifyWebhook, error)) (row webhookdb.NotifyWebhook, err error) {
	id, err := httpx.ParseID(raw)
	if err != nil {
		return row, err
	}
	err = pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		q := webhookdb.New(tx)
		had, err := q.LockWebhook(ctx, id)
		if errors.Is(err, pgx.ErrNoRows) {
			return errNone
		}
		if err == nil {
			row, err = do(tx, q, had)
		}
		return err
	})
	return row, unreachable(err)
}

func (s *Service) answer(ctx context.Context, row webhookdb.NotifyWebhook) (*httpx.Output[Webhook], error) {
	st, err := s.standing(ctx)
	if err != nil {
		return nil, unreachable(err)
	}
	return httpx.Answer(st.view(row)), nil
}

func (s *Service) change(ctx context.Context, in *changeInput) (*httpx.Output[Webhook], error) {
	row, err := s.locked(ctx, in.ID, func(tx pgx.Tx, q *webhookdb.Queries, had webhookdb.NotifyWebhook) (now webhookdb.NotifyWebhook, err error) {
		to := webhookdb.ChangeWebhookParams{ID: had.ID, Url: had.Url, Description: had.Description, Types: had.Types, Enabled: had.Enabled}
		set(&to.Url, in.Body.URL)
		set(&to.Description, in.Body.Description)
		set(&to.Types, in.Body.Types)
		set(&to.Enabled, in.Body.Enabled)
		if err := s.wanted(to.Url, to.Types); err != nil {
			return now, err
		}
		if now, err = q.ChangeWebhook(ctx, to); err != nil {
			return now, err
		}
		return now, audit.Record(ctx, tx, "webhook.change", subjectOf(had.ID), audit.Change{Before: detail(had), After: detail(now)})
	})
	if err != nil {
		return nil, err
	}
	return s.answer(ctx, row)
}

// set sets a member that was given.
func set[V any](to, given *V) {
	if given != nil {
		*to = *given
	}
}

func (s *Service) remove(ctx context.Context, in *OneInput) (*httpx.Output[Webhook], error) {
	row, err := s.locked(ctx, in.ID, func(tx pgx.Tx, q *webhookdb.Queries, had webhookdb.NotifyWebhook) (webhookdb.NotifyWebhook, error) {
		if err := q.RemoveWebhook(ctx, had.ID); err != nil {
			return had, err
		}
		return had, audit.Record(ctx, tx, "webhook.remove", subjectOf(had.ID), audit.Change{Before: detail(had)})
	})
	if err != nil {
		return nil, err
	}
	return s.answer(ctx, row)
}

func (s *Service) renewSecret(ctx context.Context, in *OneInput) (*httpx.Output[Secret], error) {
	row, err := s.locked(ctx, in.ID, func(tx pgx.Tx, q *webhookdb.Queries, had webhookdb.NotifyWebhook) (now webhookdb.NotifyWebhook, err error) {
		now, err = q.RotateSecret(ctx, webhookdb.RotateSecretParams{ID: had.ID, Secret: s.newSecret(), FormerUntil: new(time.Now().Add(formerFor))})
		if err != nil {
			return now, err
		}
		return now, audit.Record(ctx, tx, "webhook.secret", subjectOf(had.ID), audit.Change{After: map[string]any{"secret": "another", "former_until": httpx.Moment(*now.FormerUntil)}})
	})
	if err != nil {
		return nil, err
	}
	shown, err := s.answer(ctx, row)
	if err != nil {
		return nil, err
	}
	return s.show(Secret{shown.Body, base64.StdEncoding.EncodeToString(row.Secret)})
}
