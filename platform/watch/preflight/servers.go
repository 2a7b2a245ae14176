package preflight

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"stampede/platform/base/disk"
	"stampede/platform/base/fault"
	"stampede/platform/store/pg"
	"stampede/platform/store/redisx"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/instances"
)

// Servers are the parts of an instance that its checks look at.
type Servers struct {
	DB      pg.DB
	Standby *pg.Standby // nil: there is none
	Redis   redis.UniversalClient
	// Clock returns how far the Redis server's clock is ahead of this machine's, and
	// how old that knowledge is.
	Clock func() (offset, age time.Duration)
	// NATS returns nil while it takes grants.
	NATS func(ctx context.Context) error
	// Disk is a folder on the disk that grows with a sale, "" where that is another
	// machine's.
	Disk string
	// Running is what the running instances have in sum.
	Running func(ctx context.Context) (instances.Shop, error)
	// Alarmed is whether the settings send alarms anywhere.
	Alarmed bool
}

const (
	// clockBound: a shopper's page counts down by Redis's time, so that a machine's
	// clock disturbs only logs, certificates and providers' time stamps, which take a
	// few seconds.
	clockBound = 2 * time.Second
	// redisBytes is what a unit takes in Redis: its hold and its user's mark, with the
	// overhead of their hashes while they grow.
	redisBytes = 400
	// diskBytes is what a unit takes on disk over its life: order, payment and events
	// in Postgres and its write-ahead log, Redis's log, NATS's streams.
	diskBytes = 8 << 10
	// archivedWithin is how old the newest archived piece of Postgres's log may be: an
	// idle server archives none, a sale one in seconds.
	archivedWithin = 24 * time.Hour
)

// Checks are the checks of the stores and of this instance.
func (s Servers) Checks() []Check {
	return []Check{
		{
			Code: "nats", Titles: fault.Text{"NATS", "NATS"},
			Next: fault.Text{"Read /readyz and NATS's log. Nothing sells without it.", "查看 /readyz 和 NATS 日志；不恢复则无法开抢。"}, Look: s.nats,
		},
		{
			Code: "postgres", Titles: fault.Text{"Durability of Postgres", "Postgres 数据持久性"},
			Next: fault.Text{"Correct the setting in postgresql.conf and reload or restart Postgres.", "在 postgresql.conf 中改正，并重新加载或重启 Postgres。"}, Look: s.postgres,
		},
		{
			Code: "standby", Titles: fault.Text{"Standby for lists and reports", "列表与报表的只读备库"},
			Next: fault.Text{
				"Read Postgres's log on the standby. Until it is well the primary does its reads, beside the sale.",
				"查看备库的 Postgres 日志；恢复之前，这些读取由主库承担，会与抢购争用资源。",
			}, Look: s.standby,
		},
		{
			Code: "redis", Titles: fault.Text{"Durability of Redis", "Redis 数据持久性"},
			Next: fault.Text{"Correct the setting with CONFIG SET and in redis.conf.", "用 CONFIG SET 改正，并写入 redis.conf。"}, Look: s.redis,
		},
		{
			Code: "memory", Titles: fault.Text{"Memory of Redis", "Redis 内存"},
			Next: fault.Text{"Raise maxmemory, or put fewer units on sale at once.", "调大 maxmemory，或减少同场库存。"}, Look: s.memory,
		},
		{
			Code: "disk", Titles: fault.Text{"Disk space", "磁盘空间"},
			Next: fault.Text{"Free or add disk space.", "清理或扩容磁盘。"}, Look: s.disk,
		},
		{
			Code: "clock", Titles: fault.Text{"Clocks", "服务器时钟"},
			Next: fault.Text{"Start a time service (chrony, systemd-timesyncd) on every machine.", "在每台机器上启用时间同步（chrony 或 systemd-timesyncd）。"}, Look: s.clocks,
		},
		{
			Code: "connections", Titles: fault.Text{"Connections", "连接数"},
			Next: fault.Text{
				"Raise the limit of open files (LimitNOFILE, ulimit -n) or start more instances behind the proxy.",
				"提高打开文件数上限（LimitNOFILE、ulimit -n），或在代理后增加实例。",
			}, Look: s.connections,
		},
		{
			Code: "postgres-connections", Titles: fault.Text{"Connections to Postgres", "数据库连接"},
			Next: fault.Text{
				"Raise max_connections of Postgres, which needs its restart, or lower --max-conns on every instance.",
				"调高 Postgres 的 max_connections（需重启数据库），或调低每个实例的 --max-conns。",
			}, Look: s.postgresConnections,
		},
		{
			Code: "backup", Titles: fault.Text{"Backup of the database", "数据库备份"},
			Next: fault.Text{
				"Archive Postgres's log (archive_mode, pgBackRest, WAL-G) or take a base backup now; ignore this if the provider of your database does it.",
				"开启 WAL 归档（archive_mode、pgBackRest、WAL-G）或立即做一次全量备份；托管数据库可忽略。",
			}, Look: s.backup,
		},
		{
			Code: "alarm-addresses", Titles: fault.Text{"Alarms reach an operator", "告警能通知到人"},
			Next: fault.Text{
				"Name an address with --alarm-to, start the servers again, and run `stampede alarm test`.",
				"用 --alarm-to 设置告警地址，重启服务后运行 `stampede alarm test`。",
			}, Look: s.alarmAddresses,
		},
		{
			Code: "alarms", Titles: fault.Text{"Open alarms", "未处理的告警"},
			Next: fault.Text{"Follow the alarm's next action, then acknowledge it.", "按告警的“下一步”处理，然后确认。"}, Look: s.alarms,
		},
	}
}

func (s Servers) nats(ctx context.Context, _ Need) ([]Finding, error) {
	if err := s.NATS(ctx); err != nil {
		return []Finding{{Level: Stop, Found: fault.T("NATS takes no grants: {why}.",
			"NATS 无法接收抢购资格：{why}。", "why", err)}}, nil
	}
	return nil, nil
}

func (s Servers) standby(ctx context.Context, _ Need) ([]Finding, error) {
	if !s.Standby.Given() {
		return []Finding{{Level: OK, Found: fault.T("None is set up: the primary reads them.", "未配置，由主库读取。")}}, nil
	}
	if err := s.Standby.Check(ctx); err != nil {
		return []Finding{{Level: Warning, Found: fault.T("It cannot be used: {why}.", "无法使用：{why}。", "why", err)}}, nil
	}
	return nil, nil
}

// postgres looks at the settings by which a crash loses commits.
func (s Servers) postgres(ctx context.Context, _ Need) (found []Finding, err error) {
	for _, want := range []struct {
		name  string
		lost  fault.Text
		level Level
	}{
		{"fsync", fault.T("a crash of its machine may destroy the database", "机器崩溃可能损坏整个数据库"), Stop},
		{"full_page_writes", fault.T("a crash of its machine may destroy pages", "机器崩溃可能损坏数据页"), Stop},
		{"synchronous_commit", fault.T("a crash loses the orders and payments of the last moments", "崩溃会丢失最后时刻的订单和支付"), Warning},
	} {
		var value string
		if err := s.DB.QueryRow(ctx, `SELECT setting FROM pg_settings WHERE name = $1`, want.name).Scan(&value); err != nil {
			return found, fmt.Errorf("read %s: %w", want.name, err)
		}
		if value == "off" {
			found = append(found, Finding{want.level, want.name, fault.T("{setting} is off: {lost}.",
				"{setting} 已关闭：{lost}。", "setting", want.name, "lost", want.lost)})
		}
	}
	return found, nil
}

func (s Servers) redis(ctx context.Context, _ Need) (found []Finding, err error) {
	err = redisx.Check(ctx, s.Redis, func(warning string) {
		found = append(found, Finding{Level: Warning, Found: fault.T("{warning}.", "{warning}。", "warning", warning)})
	})
	return found, err
}

// memory compares what the plan's units take with what is left below maxmemory, or
// on the machine where that is unset. Of a cluster it asks one node.
func (s Servers) memory(ctx context.Context, need Need) ([]Finding, error) {
	info, err := s.Redis.Info(ctx, "memory").Result()
	if err != nil {
		return nil, err
	}
	used, most := memoryField(info, "used_memory"), memoryField(info, "maxmemory")
	if most == 0 {
		most = memoryField(info, "total_system_memory")
	}
	if most == 0 {
		return nil, errors.New("Redis does not say how much memory it may use") //nolint:staticcheck // a name
	}
	wanted, left := need.Units*redisBytes, most-used
	f := Finding{OK, "", fault.T("{units} units take about {wanted} MiB; {left} MiB of {most} MiB are left.",
		"{units} 件约需 {wanted} MiB；共 {most} MiB，剩余 {left} MiB。",
		"units", need.Units, "wanted", mib(wanted), "left", left>>20, "most", most>>20)}
	switch {
	case wanted > left:
		f.Level = Stop
	case wanted > left/2:
		f.Level = Warning
	}
	return []Finding{f}, nil
}

// memoryField is a number in an answer to INFO; 0 if it is missing.
func memoryField(info, name string) int64 {
	for line := range strings.SplitSeq(info, "\r\n") {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.ParseInt(value, 10, 64)
			return n
		}
	}
	return 0
}

func (s Servers) disk(_ context.Context, need Need) ([]Finding, error) {
	if s.Disk == "" {
		return []Finding{{OK, "", fault.T("Postgres, Redis and NATS run on other servers, whose disks are not checked.",
			"Postgres、Redis 和 NATS 在其他服务器上，未检查其磁盘。")}}, nil
	}
	free, err := disk.Free(s.Disk)
	if err != nil {
		return nil, err
	}
	wanted := need.Units * diskBytes
	f := Finding{OK, s.Disk, fault.T("{units} units take about {wanted} MiB; {free} MiB are free.",
		"{units} 件约需 {wanted} MiB；剩余 {free} MiB。", "units", need.Units, "wanted", mib(wanted), "free", free>>20)}
	switch {
	case wanted > free:
		f.Level = Stop
	case wanted > free/2:
		f.Level = Warning
	}
	return []Finding{f}, nil
}

// mib rounds up, so that little is not 0.
func mib(bytes int64) int64 { return (bytes + 1<<20 - 1) >> 20 }

// clocks compares this machine's clock with Redis's, which opens sales, and with
// Postgres's, which ends payments.
func (s Servers) clocks(ctx context.Context, _ Need) (found []Finding, err error) {
	began := time.Now()
	theirs, err := pg.Now(ctx, s.DB)
	if err != nil {
		return nil, err
	}
	half := time.Since(began) / 2 // the answer's way
	offset, _ := s.Clock()
	for _, c := range []struct {
		name string
		off  time.Duration
	}{{"Redis", offset}, {"Postgres", theirs.Sub(began.Add(half))}} {
		direction := fault.T("ahead of", "快")
		if c.off < 0 {
			direction = fault.T("behind", "慢")
		}
		f := Finding{OK, c.name, fault.T("{clock} is {off} {direction} this machine.", "{clock} 的时钟比本机{direction} {off}。",
			"clock", c.name, "off", c.off.Abs().Round(time.Millisecond), "direction", direction)}
		if c.off.Abs() > clockBound {
			f.Level = Warning
		}
		found = append(found, f)
	}
	return found, nil
}

func (s Servers) connections(ctx context.Context, need Need) ([]Finding, error) {
	shop, err := s.Running(ctx)
	if err != nil {
		return nil, err
	}
	if need.Shoppers == 0 {
		return []Finding{{OK, "", fault.T("The shop can hold {most} connections (running instances: {instances}). Enter the expected number of shoppers to compare.",
			"运行中的 {instances} 个实例可承载 {most} 个连接；未填写预计人数，未作比较。", "instances", shop.Instances, "most", shop.Clients)}}, nil
	}
	f := Finding{OK, "", fault.T("{expected} shoppers are expected; the shop can hold {most} connections (running instances: {instances}).",
		"预计 {expected} 人；运行中的 {instances} 个实例可承载 {most} 个连接。", "expected", need.Shoppers, "instances", shop.Instances, "most", shop.Clients)}
	if int64(need.Shoppers) > shop.Clients {
		f.Level = Warning
	}
	return []Finding{f}, nil
}

// postgresConnections compares what all instances may open with what Postgres leaves them
// beside its reserved connections and those of other programs.
func (s Servers) postgresConnections(ctx context.Context, _ Need) ([]Finding, error) {
	shop, err := s.Running(ctx)
	if err != nil {
		return nil, err
	}
	var free int64
	if err := s.DB.QueryRow(ctx, `
		SELECT sum(setting::bigint * CASE name WHEN 'max_connections' THEN 1 ELSE -1 END)::bigint - (
			SELECT count(*) FROM pg_stat_activity WHERE coalesce(backend_type, 'client backend') = 'client backend' AND application_name NOT LIKE 'stampede%')
		FROM pg_settings WHERE name IN ('max_connections', 'superuser_reserved_connections', 'reserved_connections')`).Scan(&free); err != nil {
		return nil, fmt.Errorf("read the connections of Postgres: %w", err)
	}
	f := Finding{OK, "", fault.T("The shop opens up to {wanted} connections to Postgres, which has {free} for it (running instances: {instances}).",
		"运行中的 {instances} 个实例最多打开 {wanted} 个数据库连接，Postgres 可提供 {free} 个。", "instances", shop.Instances, "wanted", shop.Connections, "free", free)}
	if shop.Connections > free {
		f.Level = Warning
	}
	return []Finding{f}, nil
}

// backup reads how Postgres archives its log. Backups by other means are unknown to it.
func (s Servers) backup(ctx context.Context, _ Need) ([]Finding, error) {
	var mode string
	var last, failed *time.Time
	err := s.DB.QueryRow(ctx, `SELECT current_setting('archive_mode'), last_archived_time, last_failed_time FROM pg_stat_archiver`).Scan(&mode, &last, &failed)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, errors.New("Postgres does not show its archiver") //nolint:staticcheck // a name
	case err != nil:
		return nil, err
	case mode == "off":
		return []Finding{{Level: Warning, Found: fault.T("Postgres archives nothing (archive_mode is off): a lost disk loses every order since the last backup.",
			"Postgres 未归档（archive_mode 关闭）：磁盘损坏会丢失上次备份以来的全部订单。")}}, nil
	case failed != nil && (last == nil || failed.After(*last)):
		return []Finding{{Level: Warning, Found: fault.T("Archiving has failed since {since}.",
			"自 {since} 起归档失败。", "since", failed.UTC().Format(time.RFC3339))}}, nil
	case last == nil || time.Since(*last) > archivedWithin:
		return []Finding{{Level: Warning, Found: fault.T("Postgres archived nothing within the last day.",
			"Postgres 最近一天没有归档。")}}, nil
	}
	return []Finding{{OK, "", fault.T("Postgres last archived at {at}.",
		"Postgres 最近一次归档于 {at}。", "at", last.UTC().Format(time.RFC3339))}}, nil
}

func (s Servers) alarmAddresses(context.Context, Need) ([]Finding, error) {
	if s.Alarmed {
		return nil, nil
	}
	return []Finding{{Level: Warning, Found: fault.T("Alarms are only in the back office's list: no phone, e-mail address or webhook gets them.",
		"告警只显示在管理后台：没有手机、邮箱或 Webhook 会收到。")}}, nil
}

// mostAlarms bounds the alarms that are listed one by one.
const mostAlarms = 20

func (s Servers) alarms(ctx context.Context, _ Need) (found []Finding, err error) {
	open, err := alarm.List(ctx, s.DB, alarm.Filter{Open: true, Limit: mostAlarms})
	for _, a := range open {
		found = append(found, Finding{Warning, string(a.Code) + " " + a.Subject, fault.T("{severity}, last seen at {at}: {next}",
			"{severity}，最近一次于 {at}：{next}", "severity", a.Severity, "at", a.LastSeen.UTC().Format(time.RFC3339), "next", a.Next())})
	}
	return found, err
}
