package inventory

import "stampede/platform/watch/alarm"

// Alarms about the books and about the return of units to Redis.
var (
	alarmBooksDiffer = alarm.Define("books-differ", alarm.Critical,
		"While an item was loaded, its stock row and its live orders did not add up. It was loaded from the stock row, which CHECK constraints guard.",
		"Run `stampede verify`; pause the item if it is on sale.")
	alarmReleaseFailing = alarm.Define("release-failing", alarm.Critical,
		"Closed or paid orders of an item cannot be applied to Redis, so its returned units are not on sale. Its keeper keeps retrying; other items are not affected.",
		"Read the alarm's detail; check the health and memory of Redis. If the item's keys are damaged, delete its state key in Redis (its name ends in :<item>:state): the item is then loaded again automatically.")
	alarmRedisDiffers = alarm.Define("redis-differs", alarm.Critical,
		"An item in Redis differs from its orders in Postgres in a way that is not repaired automatically. Postgres decides: nothing is oversold, but attempts may be refused after their 202.",
		"Run `stampede reconcile --item N` with the item's number, which lists every difference with its cause. Pause the item if it is on sale. Delete its state key in Redis (its name ends in :<item>:state) to have it loaded again from Postgres.")
)
