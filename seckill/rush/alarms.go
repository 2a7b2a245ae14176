package rush

import "stampede/platform/watch/alarm"

// Alarms about items on sale and their grants.
var (
	alarmItemFenced = alarm.Define("item-fenced", alarm.Critical,
		"An item whose sale is open is not loaded. Shoppers are asked to retry.",
		"Check the health of Redis, NATS and Postgres and the log line \"item not loaded\". If the order writer is behind, the item opens when the writer has caught up.")
	alarmHoldStuck = alarm.Define("hold-stuck", alarm.Critical,
		"A granted order number became neither an order nor a refusal, although its grant was published again and consumed.",
		"Find the number among the dead letters of order-writer, fix the error shown there, and redrive them.")
)
