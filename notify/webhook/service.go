package webhook

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/notify/webhook/internal/webhookdb"
	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/outbound"
	"stampede/platform/store/pulse"
	"stampede/platform/watch/alarm"
)

// Settings are for shops whose systems are on the server's own network.
type Settings struct {
	Private bool `name:"webhook-private" default:"false" env:"STAMPEDE_WEBHOOK_PRIVATE" help:"Let webhooks go to private addresses and over http://, for receivers on the server's own network. An admin can then make the server call any address there." rare:""`
}

// Deps are the module's dependencies.
type Deps struct {
	DB    *pgxpool.Pool
	Pulse *pulse.Pulse // says when a webhook was changed; nil: the leader looks each second
	// SigningKeys seal the secrets, the current one first.
	SigningKeys [][]byte
	Log         *slog.Logger
	Metrics     prometheus.Registerer
}

// Service delivers events. Safe for concurrent use.
type Service struct {
	cfg      Settings
	deps     Deps
	keys     auth.Ring
	client   *outbound.Client
	holder   string
	stopping chan struct{}   // closed by EndWaits
	backoff  []time.Duration // of an event; tests shorten these
	probe    time.Duration   // probeFirst
	idle     time.Duration   // idleEvery
	look     time.Duration   // lookFor
	news     news
}

// aboutSecret binds a sealed secret to its purpose.
const aboutSecret = "a webhook's secret" //nolint:gosec // names one

// timeout bounds one delivery. Receivers that work longer should answer first.
const timeout = 10 * time.Second

// New returns a Service; it starts nothing.
func New(cfg Settings, deps Deps) *Service {
	return &Service{
		cfg: cfg, deps: deps, keys: auth.Keys("webhook-secrets", deps.SigningKeys...), holder: ids.New().String(), stopping: make(chan struct{}),
		backoff: backoff, probe: probeFirst, idle: idleEvery, look: lookFor,
		client: outbound.New(outbound.Config{
			Peer: "webhook", Timeout: timeout, Attempts: 1, Conns: concurrency, MaxBytes: 4 << 10, Public: !cfg.Private, Direct: true, Metrics: deps.Metrics,
		}),
	}
}

// EndWaits answers requests that wait for events. A stop calls it before requests drain.
// Call it once.
func (s *Service) EndWaits(context.Context) error {
	close(s.stopping)
	return nil
}

// Workers deliver on one instance at a time.
func (s *Service) Workers() []app.Worker {
	return []app.Worker{{Name: "webhooks", Run: s.deliver}}
}

var (
	alarmFailing = alarm.Define("webhook-failing", alarm.Warning,
		fault.T("A webhook has taken no event for ten minutes, or the next message cannot be read. Its events wait in the log, for 30 days.",
			"一个 Webhook 十分钟未接受任何事件，或下一条消息无法读取。其事件在日志中保留 30 天。"),
		fault.T("Read the detail, and look at the receiver and at the webhook's deliveries. If its address is given up, disable or remove the webhook. If a message cannot be read, run the newest release on every instance.",
			"查看详情，并检查接收方和该 Webhook 的投递记录；若地址已停用，请停用或移除该 Webhook；若消息无法读取，请在所有实例上运行最新版本。"))
	alarmDisabled = alarm.Define("webhook-disabled", alarm.Warning,
		fault.T("A receiver answered 410, by which it asks for no more events, and its webhook is disabled. Its events wait in the log, for 30 days.",
			"接收方返回 410，表示不再接收事件，其 Webhook 已停用。事件在日志中保留 30 天。"),
		fault.T("If the receiver's owner meant that, remove the webhook. Otherwise repair the receiver and enable the webhook, which goes on where it was.",
			"若接收方确实不再需要事件，请移除该 Webhook；否则修复接收方并重新启用，将从原位置继续投递。"))
	alarmGivenUp = alarm.Define("webhook-given-up", alarm.Warning,
		fault.T("An event was refused by a webhook for a day, while it took others, and is not tried again.",
			"一个 Webhook 在接受其他事件的同时，拒绝某个事件达一天之久，不再重试。"),
		fault.T("Find the event among the webhook's deliveries, repair the receiver, and send the event again.",
			"在该 Webhook 的投递记录中找到该事件，修复接收方后重新发送。"))
	alarmMissed = alarm.Define("webhook-missed", alarm.Critical,
		fault.T("Events were deleted, after 30 days, before a webhook had taken them.",
			"事件在某个 Webhook 取走之前已满 30 天，被删除。"),
		fault.T("Compare the receiver's records with the lists of orders and refunds since the webhook's last delivery.",
			"请将接收方的记录与该 Webhook 上次投递以来的订单、退款列表核对。"))
)

// Probes finds webhooks that fail.
func (s *Service) Probes() []alarm.Probe {
	const failingFor = 10 * time.Minute
	return []alarm.Probe{{Alarm: alarmFailing, Every: 30 * time.Second, Shared: true, Look: func(ctx context.Context) (found []alarm.Finding, err error) {
		rows, err := webhookdb.New(s.deps.DB).Failing(ctx, failingFor)
		for _, r := range rows {
			found = append(found, alarm.Finding{Subject: subjectOf(r.ID), Detail: "It has refused " + id(int64(r.Failures)) + " events in a row; the last answer: " + r.LastError})
		}
		return found, err
	}}}
}
