package office

// sentences are the Chinese of what a preflight finds at the servers.
var sentences = map[string]string{
	"Not checked: %v.":                                                            "未能检查：%s。",
	"no answer within %s":                                                         "%s 内没有响应",
	"NATS takes no grants: %v.":                                                   "NATS 无法接收抢购资格：%s。",
	"%s is off: %s.":                                                              "%s 已关闭：%s。",
	"a crash of its machine may destroy the database":                             "机器崩溃可能损坏整个数据库",
	"a crash of its machine may destroy pages":                                    "机器崩溃可能损坏数据页",
	"a crash loses the orders and payments of the last moments":                   "崩溃会丢失最后时刻的订单和支付",
	"%d units take about %d MiB; %d MiB of %d MiB are left.":                      "%[1]s 件约需 %[2]s MiB；共 %[4]s MiB，剩余 %[3]s MiB。",
	"%d units take about %d MiB; %d MiB are free.":                                "%s 件约需 %s MiB；剩余 %s MiB。",
	"Postgres, Redis and NATS run on other servers, whose disks are not checked.": "Postgres、Redis 和 NATS 在其他服务器上，未检查其磁盘。",
	"%s is %s ahead of this machine.":                                             "%s 的时钟比本机快 %s。",
	"%s is %s behind this machine.":                                               "%s 的时钟比本机慢 %s。",
	"This instance can hold %d connections. Enter the expected number of shoppers to compare.":              "本实例可承载 %s 个连接；未填写预计人数，未作比较。",
	"%d shoppers are expected; this instance can hold %d connections.":                                      "预计 %s 人；本实例可承载 %s 个连接。",
	"Postgres archives nothing (archive_mode is off): a lost disk loses every order since the last backup.": "Postgres 未归档（archive_mode 关闭）：磁盘损坏会丢失上次备份以来的全部订单。",
	"Archiving has failed since %s.":                 "自 %s 起归档失败。",
	"Postgres archived nothing within the last day.": "Postgres 最近一天没有归档。",
	"Postgres last archived at %s.":                  "Postgres 最近一次归档于 %s。",
}
