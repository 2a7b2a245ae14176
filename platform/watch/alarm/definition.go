package alarm

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
)

// Severity says whether the alarm may wait until the morning.
type Severity string

// The severities.
const (
	Info     Severity = "info"     // nothing is wrong; what operators want to hear
	Warning  Severity = "warning"  // nothing is lost; check during working hours
	Critical Severity = "critical" // shoppers or money are affected now
)

// Code names the problem. It is part of the API: receivers of the webhook and alert
// rules match it, so a code never changes its meaning.
type Code string

// Definition is a code with its texts for the person on call. The package that
// raises it defines it.
type Definition struct {
	Code     Code
	Severity Severity
	Meaning  fault.Text // the problem, in sentences
	Action   fault.Text // what to do next, step by step
}

// defined contains every definition of the program. It is complete before main runs.
var defined = map[Code]*Definition{}

// Define makes a definition and adds it to the list that operators read. Call it for
// a package's variables only. A second definition of a code, and one without texts,
// are programming errors.
func Define(code Code, severity Severity, meaning, action fault.Text) *Definition {
	for _, text := range []fault.Text{meaning, action} {
		if defined[code] != nil || !strings.HasSuffix(text[0], ".") || !strings.HasSuffix(text[1], "。") {
			panic(fmt.Sprintf("alarm: %s is defined twice or not explained", code))
		}
	}
	d := &Definition{code, severity, meaning, action}
	defined[code] = d
	return d
}

// Definitions lists every definition of the program, ordered by code.
func Definitions() []*Definition {
	return slices.SortedFunc(maps.Values(defined), func(a, b *Definition) int { return cmp.Compare(a.Code, b.Code) })
}

// Raise records an occurrence about a subject, with the details of this finding. It
// writes one row and posts nothing, so call it in the transaction of the finding;
// the Notifier posts. A repeated alarm keeps its acknowledgement while it continues,
// and loses it when it returns after an hour's silence: that is a new incident.
func (d *Definition) Raise(ctx context.Context, db pg.DB, subject, detail string) error {
	return record(ctx, db, newOccurrence(d, subject, detail))
}

// codeTable is the list for the API's documentation.
func codeTable() string {
	var b strings.Builder
	b.WriteString("| code | severity | problem | what to do |\n|---|---|---|---|\n")
	for _, d := range Definitions() {
		b.WriteString("| `" + string(d.Code) + "` | " + string(d.Severity) + " | " + d.Meaning[httpx.English] + " | " + d.Action[httpx.English] + " |\n")
	}
	return b.String()
}

// The alarms that platform raises. Stores that raise alarms get Raise from main.
var (
	BooksBroken = Define("books-broken", Critical,
		fault.T("A check of the running server found an invariant violated, twice in a row: units or money are not accounted for.",
			"运行中的检查连续两次发现不一致：有商品或款项对不上账。"),
		fault.T("Pause the item if it is on sale. Run `stampede verify` for the full result and repair what it reports before you resume the item.",
			"若商品正在销售，请先暂停。运行 `stampede verify` 查看完整结果，修复后再恢复销售。"))
	OutboxRefused = Define("outbox-refused", Critical,
		fault.T("NATS refuses an event, which waits and is tried again: it is too large, or no stream has its subject.",
			"NATS 拒绝了一个事件，正在等待重试：事件过大，或没有消息流包含其主题。"),
		fault.T("Raise max_payload of the NATS server to at least 2 MB; the event is then sent automatically within half an hour, or at once if you redrive it (`GET /api/v1/admin/messages`).",
			"将 NATS 的 max_payload 调到至少 2 MB；事件会在半小时内自动发送，也可立即重新投递（`GET /api/v1/admin/messages`）。"))
	OutboxFailed = Define("outbox-failed", Critical,
		fault.T("NATS has refused an event for so long (--retry-refused) that it is not tried any more. The event is kept; what it announces has not happened.",
			"NATS 拒绝某个事件的时间已超过 --retry-refused，不再重试。事件已保留，其所通知的事项尚未发生。"),
		fault.T("Repair the cause that the detail names, then redrive it: `POST /api/v1/admin/messages/redrive`.",
			"排除详情中的原因，然后重新投递：`POST /api/v1/admin/messages/redrive`。"))
	OutboxBehind = Define("outbox-behind", Critical,
		fault.T("Committed events have waited in the outbox for a minute: pushes, releases and the processing of payments are late.",
			"已提交的事件在 outbox 中等待了一分钟：推送、库存释放和支付处理都会延迟。"),
		fault.T("Check the health of NATS and the log lines of the outbox relay; if EVENTS is full, the line \"events are kept for a slow consumer\" names the consumer whose handler must succeed again. The events are then sent automatically.",
			"检查 NATS 的状态和 outbox 的日志；若 EVENTS 已满，日志 \"events are kept for a slow consumer\" 会指出需先恢复处理的消费者。之后事件会自动发送。"))
	RedisUnreachable = Define("redis-unreachable", Critical,
		fault.T("An instance cannot reach Redis. It answers rushes with 503.",
			"一个实例无法连接 Redis，抢购请求返回 503。"),
		fault.T("Restore Redis or the connection to it. Items that Redis lost are loaded again automatically.",
			"恢复 Redis 或其网络连接。Redis 丢失的商品会自动重新加载。"))
	RedisRefuses = Define("redis-refuses-writes", Critical,
		fault.T("Redis answers an instance and takes no writes: it is full, is a replica, or cannot save to its disk. Rushes are refused with 503 before a unit is taken; units that come back wait.",
			"Redis 能应答但不接受写入：内存已满、处于从库状态，或无法写盘。抢购在扣减库存之前以 503 拒绝，退回的商品等待处理。"),
		fault.T("Read the detail, which says why and what to do. The sale then continues automatically.",
			"查看详情中的原因和处理方法，处理后抢购会自动继续。"))
	PostgresUnreachable = Define("postgres-unreachable", Critical,
		fault.T("An instance could not reach Postgres. Meanwhile grants were queued, shoppers could not pay and operators could not change sales. The alarm is recorded after the outage, with its duration.",
			"一个实例曾无法连接 Postgres。期间抢购资格已排队，顾客无法付款，操作员无法修改活动。告警在恢复后记录，并注明时长。"),
		fault.T("If the outage continues, restore Postgres or the connection to it; the order writer then catches up automatically. Otherwise check the Postgres log for the cause.",
			"若仍未恢复，请恢复 Postgres 或其网络连接，订单写入会自动追上；若已恢复，请在 Postgres 日志中查找原因。"))
	BusUnhealthy = Define("bus-unhealthy", Critical,
		fault.T("An instance cannot publish durably: JetStream does not answer, reports a write error, or is being restarted. Rushes are refused before Redis deducts a unit.",
			"一个实例无法可靠发布消息：JetStream 无应答、报告写入错误或正在恢复。抢购在 Redis 扣减库存之前被拒绝。"),
		fault.T("Check the NATS server and its disk. The embedded server restarts automatically once its folder is writable.",
			"检查 NATS 服务及其磁盘。内嵌的 NATS 在其目录可写后会自动重启。"))
	GrantsFull = Define("grants-full", Critical,
		fault.T("The stream of grants is nearly full because the order writer is behind, so rushes are refused.",
			"订单写入落后，抢购资格的消息流即将写满，抢购被拒绝。"),
		fault.T("Check the health of Postgres and the writer's log lines. Rushes are accepted again when the writer has caught up.",
			"检查 Postgres 的状态和订单写入的日志。追上后会恢复抢购。"))
	DatabaseWentBack = Define("database-went-back", Critical,
		fault.T("Postgres is older than the state that Redis was filled from: a backup was restored, or a replica without the last commits took over.",
			"Postgres 的数据早于 Redis 加载时的状态：可能恢复了备份，或由缺少最近提交的从库接管。"),
		fault.T("If the detail says that Redis was emptied, run `stampede verify`. Otherwise first restart the servers one by one: the first start empties and refills Redis. Compare the lost time with the payment provider's statement.",
			"若详情说明 Redis 已清空，请运行 `stampede verify`；否则先逐台重启服务，第一台启动时会清空并重新填充 Redis。请用支付渠道账单核对丢失的时段。"))
	DiskNearlyFull = Define("disk-nearly-full", Critical,
		fault.T("The disk has less free space than the streams may still need.",
			"磁盘剩余空间少于消息流可能需要的空间。"),
		fault.T("Free space or lower the settings that end in -max-mib; on a full disk rushes are refused until there is space again.",
			"清理磁盘空间，或调低以 -max-mib 结尾的设置；磁盘写满后会停止接受抢购，直到有空间为止。"))
	WebhookFailing = Define("alarm-webhook-failing", Warning,
		fault.T("An address of --alarm-to or --alarm-then, or the receiver of the alarm webhook, has not accepted a message in several attempts. Retries continue for a day.",
			"--alarm-to、--alarm-then 中的某个地址或告警 Webhook 的接收方多次未接受消息。重试会持续一天。"),
		fault.T("Read the detail, compare the address in the settings with the provider's or the receiver's, and try it: `stampede alarm test`. Until then check the list of alarms or the metric.",
			"查看详情，核对设置中的地址与服务商或接收方是否一致，并运行 `stampede alarm test` 验证。在此期间请关注告警列表或监控指标。"))
)
