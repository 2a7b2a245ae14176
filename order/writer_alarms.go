package order

import (
	"context"
	"fmt"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/store/bus"
	"stampede/platform/watch/alarm"
)

// The order writer's alarms.
var (
	alarmWriterStuck = alarm.Define("writer-stuck", alarm.Critical,
		fault.T("The order writer cannot commit a batch, or the orders of the item that the subject names, and keeps retrying. Shoppers wait in line, and nothing is lost.",
			"订单写入无法提交一批订单或告警对象所指商品的订单，正在持续重试。顾客在排队等待，数据没有丢失。"),
		fault.T("Read the alarm's detail and the log line \"orders not written, trying again\", for an item \"orders of an item wait for a locked row\"; check the health, locks and disk of Postgres. The writer continues by itself.",
			"查看告警详情和日志 \"orders not written, trying again\"，若涉及商品则查看 \"orders of an item wait for a locked row\"；检查 Postgres 的状态、锁和磁盘。之后写入会自动继续。"))
	alarmShortfall = alarm.Define("stock-shortfall", alarm.Critical,
		fault.T("Redis granted more units than Postgres had. The order numbers beyond were refused; nothing was oversold.",
			"Redis 放行的数量超过了 Postgres 的库存，超出的订单号已被拒绝，没有超卖。"),
		fault.T("Pause the item and run `stampede verify`. Check whether Redis was restored from a backup or failed over to a replica that was behind.",
			"暂停该商品并运行 `stampede verify`。检查 Redis 是否从备份恢复，或切换到了落后的副本。"))
	alarmNoStock = alarm.Define("grants-without-stock", alarm.Critical,
		fault.T("Grants came for an item that has no stock row, and were refused.",
			"收到了没有库存记录的商品的抢购资格，已拒绝。"),
		fault.T("Check whether a backup of Postgres was restored while the server ran. If so, restart the server: it detects the rollback and fills Redis anew.",
			"检查是否在服务运行时恢复过 Postgres 备份。若是，请重启服务，系统会发现回退并重新填充 Redis。"))
)

const (
	// stuckAttempts is how many attempts at one batch fail before the alarm is
	// raised. With pauses from 50 ms up that is ten seconds of retries, longer
	// than it takes to detect a failover of Postgres.
	stuckAttempts = 8
	// stuckSubject is constant: there is one writer, whatever batch it is stuck
	// at. What is aside has its item's subject.
	stuckSubject = writerName
	// stuckTimeout bounds recording the alarm, since Postgres may be what is
	// broken.
	stuckTimeout = 2 * time.Second
)

// raiseAlarm raises the alarm for messages that cannot be written. The retries
// continue meanwhile. If Postgres does not accept the alarm, it is logged, and
// recorded after a batch has been written.
func (w *writer) raiseAlarm(ctx context.Context, subject, detail string) {
	w.record(ctx, alarmWriterStuck, func(ctx context.Context) error {
		return w.late.Raise(ctx, w.deps.DB, alarmWriterStuck, subject, detail)
	})
}

// unstuck records the alarms that Postgres did not accept while it accepted no
// batches. The batch is already written, so recording must not delay the next one
// for long.
func (w *writer) unstuck(ctx context.Context) {
	w.record(ctx, alarmWriterStuck, func(ctx context.Context) error { return w.late.Record(ctx, w.deps.DB) })
}

// record runs what writes an alarm.
func (w *writer) record(ctx context.Context, a *alarm.Definition, write func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, stuckTimeout)
	defer cancel()
	if err := write(ctx); err != nil {
		w.deps.Log.WarnContext(ctx, "alarm not recorded yet", "code", string(a.Code), "error", err)
	}
}

var alarmNewerGrants = alarm.Define("newer-grants", alarm.Critical,
	fault.T("An instance received grants in the layout of a newer version and left them in the queue. Their shoppers wait in line.",
		"一个实例收到了更新版本格式的抢购资格，已将其留在队列中，对应的顾客在排队等待。"),
	fault.T("Start an instance of the newer version, or finish the upgrade; it writes the orders. Before a rollback to an older version let the queue of grants run empty.",
		"启动新版本的实例，或完成升级，由其写入订单。回退到旧版本前，请等待抢购队列处理完毕。"))

// newerDelay is how long grants of a newer layout wait before the next attempt,
// which any instance may get. During a rolling upgrade half of the instances
// are of the newer version, so a few attempts reach one.
const newerDelay = time.Second

// leave returns messages that only a newer version can read to the queue. While
// Postgres is away the alarm is logged only; the next attempt raises it.
func (w *writer) leave(ctx context.Context, newer []bus.Msg) {
	if len(newer) == 0 {
		return
	}
	for _, m := range newer {
		_ = m.Nak(newerDelay) // without a connection the ack wait has the same effect
	}
	w.metrics.written.WithLabelValues("newer").Add(float64(len(newer)))
	w.deps.Log.WarnContext(ctx, "grants of a newer version left in the queue", "messages", len(newer), "subject", newer[0].Subject)
	detail := fmt.Sprintf("%d messages, the first on %s, start with layout %d.", len(newer), newer[0].Subject, newer[0].Data[0])
	w.record(ctx, alarmNewerGrants, func(ctx context.Context) error { return alarmNewerGrants.Raise(ctx, w.deps.DB, writerName, detail) })
}
