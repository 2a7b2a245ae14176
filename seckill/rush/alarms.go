package rush

import "stampede/platform/watch/alarm"

var alarmHoldStuck = alarm.Define("hold-stuck", alarm.Critical,
	"A granted order number became neither an order nor a refusal, although its grant was published again and consumed.",
	"Find the number among the dead letters of order-writer, fix the error shown there, and redrive them.")
