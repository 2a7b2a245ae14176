package inventory

import "stampede/platform/watch/alarm"

// Alarms about the books and about the return of units to Redis.
var (
	alarmBooksDiffer = alarm.Define("books-differ", alarm.Critical,
		"While an item was loaded, its stock row and its live orders did not add up. It was loaded from the stock row, which CHECK constraints guard.",
		"Run `stampede verify`; pause the item if it is on sale.")
	alarmReleaseFailing = alarm.Define("release-failing", alarm.Critical,
		"Closed or paid orders cannot be applied to Redis, so returned units are not on sale. Retries go on for a day.",
		"Read the log line about the consumer in the subject and the alarm's detail; check the health and memory of Redis. If the item's keys are damaged, delete its state key in Redis (its name ends in :<item>:state): the item is then loaded again automatically.")
)
