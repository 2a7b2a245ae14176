package message

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"

	"stampede/notify/message/internal/messagedb"
	"stampede/order/orderevent"
	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/mail"
	"stampede/platform/edge/sms"
	"stampede/platform/identity/account"
	"stampede/platform/identity/wechatmsg"
	"stampede/platform/store/pulse"
	"stampede/platform/watch/alarm"
	"stampede/seckill/seckillevent"
)

// Settings are what depends on the shop's contract with its gateway.
type Settings struct {
	Rate int `name:"messages-per-second" default:"200" env:"STAMPEDE_MESSAGES_PER_SECOND" help:"Messages to shoppers by SMS and WeChat that all instances together send in a second, at most: what the SMS gateway allows. A hundred thousand reminders take nine minutes at 200." rare:""`
}

// Check refuses a rate that sends nothing, or that no gateway takes.
func (s Settings) Check() error {
	if s.Rate < 1 || s.Rate > 10_000 {
		return fmt.Errorf("--messages-per-second must be 1 to 10000, not %d", s.Rate)
	}
	return nil
}

// Orders are what is asked about orders.
type Orders interface {
	// Unpaid returns up to most unpaid orders whose deadline is after a place, and at most until, in the order of the deadlines.
	Unpaid(ctx context.Context, after time.Time, afterNo ids.ID, until time.Time, most int) ([]orderevent.Order, error)
	// Statuses returns the status of each of the orders.
	Statuses(ctx context.Context, nos []ids.ID) (map[ids.ID]string, error)
	// Parcels returns how those of the orders were sent that were.
	Parcels(ctx context.Context, nos []ids.ID) (map[ids.ID]orderevent.Parcel, error)
}

// Sale is what is asked about what is on sale.
type Sale interface {
	// Openings returns the items with reservations that open after a moment, and at most until.
	Openings(after, until time.Time) []seckillevent.Opening
	// Opening returns an item that is on sale, or will be; false for any other.
	Opening(id int64) (seckillevent.Opening, bool)
}

// Reservations are who reserved what.
type Reservations interface {
	// ReservedBy returns up to limit users above after who reserved an item, in order.
	ReservedBy(ctx context.Context, item, after int64, limit int32) ([]int64, error)
}

// Deps are the module's dependencies.
type Deps struct {
	DB    *pgxpool.Pool
	Pulse *pulse.Pulse // nil: the sender looks by itself
	// Sender sends SMS, apart from the codes of logins, which must not wait behind messages, to numbers that Reach covers; Mail
	// sends e-mails. nil: there are none.
	Sender sms.Sender
	Reach  sms.Reach
	Mail   mail.Sender
	// Contacts returns how those of the users are reached who have a phone or an e-mail address.
	Contacts func(ctx context.Context, users []int64) (map[int64]account.Contact, error)
	// WeChat sends to those who have linked it: OpenIDs returns their openids, by the app's id. nil: the shop has no app.
	WeChat   *wechatmsg.Client
	OpenIDs  func(ctx context.Context, users []int64) (map[int64]map[string]string, error)
	Orders   Orders
	Sale     Sale
	Reserved Reservations
	// SigningKeys sign the links that unsubscribe, the current one first.
	SigningKeys [][]byte
	Signature   string // what an SMS begins with: the shop's name as the carriers know it
	BaseURL     string // of the shop, without a slash at the end
	Zone        *time.Location
	Keep        time.Duration // how long messages that have ended are listed
	Log         *slog.Logger
	Metrics     prometheus.Registerer
}

// Service makes and sends messages to shoppers. Safe for concurrent use.
type Service struct {
	deps    Deps
	keys    auth.Ring
	holder  string
	limit   *rate.Limiter
	done    *prometheus.CounterVec
	waiting prometheus.Gauge

	// Tests replace these.
	now     func() time.Time
	backoff []time.Duration
	idle    time.Duration
	claim   time.Duration
	page    int32
	pause   time.Duration

	mu     sync.Mutex
	read   Rules
	readAt time.Time
}

// New returns a Service; it starts nothing.
func New(cfg Settings, deps Deps) *Service {
	auto := promauto.With(deps.Metrics)
	s := &Service{
		deps: deps, keys: auth.Keys("unsubscribe", deps.SigningKeys...), holder: ids.New().String(),
		limit: rate.NewLimiter(rate.Limit(cfg.Rate), max(1, cfg.Rate/10)),
		done: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_shopper_messages_total", Help: "Attempts to send messages to shoppers, by kind, channel and result: sent, failed, dead or dropped.",
		}, []string{"kind", "channel", "result"}),
		waiting: auto.NewGauge(prometheus.GaugeOpts{
			Name: "stampede_shopper_messages_waiting", Help: "Messages to shoppers that are to be sent, as the sending instance counts them.",
		}),
		now: time.Now, backoff: backoff, idle: idleEvery, claim: claimFor, page: walkPage, pause: walkPause,
	}
	for _, k := range Kinds { // a counter that begins at 0 shows its first increase
		for _, c := range channels { // also of those that the server lacks: dashboards name them
			for _, result := range []string{sent, "failed", dead, dropped} {
				s.done.WithLabelValues(string(k), c, result)
			}
		}
	}
	return s
}

// Workers make and send messages on one instance at a time.
func (s *Service) Workers() []app.Worker {
	if len(s.available()) == 0 {
		return nil
	}
	return []app.Worker{{Name: "messages", Run: s.work}}
}

var (
	alarmDead = alarm.Define("messages-dead", alarm.Warning,
		fault.T("Messages to shoppers were refused, may have been sent without an answer, or could not be sent until they were worth nothing.",
			"给顾客的消息被拒绝、可能已发出但未收到应答，或在失去意义之前未能发出。"),
		fault.T("Read the reasons under Messages in the back office, repair the gateway or the text, and send them again there.",
			"在后台“消息”中查看原因，修复短信网关或文案后重新发送。"))
	alarmBudget = alarm.Define("messages-budget", alarm.Warning,
		fault.T("The budget of SMS is used up: reminders and news of returned units go by WeChat and e-mail only. Messages about orders still go by SMS.",
			"短信预算已用完：预约提醒和到货通知只走微信和邮件，与订单有关的消息照常发送短信。"),
		fault.T("Raise the budget under Messages in the back office, or wait for the next period.",
			"在后台“消息”中提高预算，或等待下一周期。"))
)

// Probes find messages that died lately.
func (s *Service) Probes() []alarm.Probe {
	const lately = time.Hour
	return []alarm.Probe{{Alarm: alarmDead, Every: time.Minute, Shared: true, Look: func(ctx context.Context) (found []alarm.Finding, err error) {
		rows, err := messagedb.New(s.deps.DB).Dead(ctx, s.now().Add(-lately))
		for _, r := range rows {
			detail := fmt.Sprintf("%d in the last hour; one of the reasons: %s", r.Messages, r.Reason)
			found = append(found, alarm.Finding{Subject: "messages " + r.Kind, Detail: detail})
		}
		return found, err
	}}}
}

// Forget erases what is known about a user, in the transaction that erases the account.
func (s *Service) Forget(ctx context.Context, tx pgx.Tx, user int64) error {
	if err := messagedb.New(tx).Forget(ctx, user); err != nil {
		return fmt.Errorf("message: forget user %d: %w", user, err)
	}
	return nil
}
