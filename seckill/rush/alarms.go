package rush

import "stampede/platform/watch/alarm"

// What is raised about items on sale and their grants.
var (
	alarmItemFenced = alarm.Define("item-fenced", alarm.Critical,
		"An item whose sale is open is not loaded. Shoppers are asked to come back.",
		"Check the health of Redis, NATS and Postgres and the log line \"item not loaded\". If the order writer is behind, the item opens when the writer has caught up.")
	alarmHoldStuck = alarm.Define("hold-stuck", alarm.Critical,
		"An order number was granted, and its grant was published again and consumed, but it became neither an order nor a refusal.",
		"Look for the number among the dead letters of order-writer, repair what their error says, and redrive them.")
)
