// Package alarm keeps what needs a person's eye, lists it for operators, counts
// it for Prometheus and tells it to a webhook.
//
// # One row per code and subject
//
// The package that finds something defines its code (Define) and raises it about a
// subject. The row counts occurrences rather than repeat them; its severity and
// next action come from the definition. An incident begins with the first occurrence, and
// anew with one that follows an hour's silence: then the acknowledgement is gone
// and the alarm is told again. Raising writes that one row and waits for nobody.
//
// # Watching
//
// A Watch looks every few seconds at what no code path would notice by failing:
// a stream that is full, a disk that fills up, books that do not add up. What a
// Probe finds for long enough it raises, and again each minute while it lasts. When
// it is over the alarm says how long it lasted. What Postgres does not take, because
// it is away itself, is kept in memory, once per code and subject, and recorded
// when it is back.
//
// # The webhook
//
// A Notifier posts each incident once to --alarm-webhook-url, as JSON:
//
//	{"id": "17-1", "alarm": {"id": "17", "code": "dead-letter", "severity": "critical", …}}
//
// id names the incident; a receiver that sees it twice, because an answer got
// lost, keeps one. Two headers sign the message:
//
//	Stampede-Timestamp: 1760000000      seconds since 1970
//	Stampede-Signature: 5f2c…           hex HMAC-SHA256 with the webhook's secret over
//	                                    those digits, a line feed and the raw body
//
// To verify, compute the same over the body as it came, before parsing it,
// compare in constant time, and refuse a timestamp more than five minutes from
// your own clock. [Verify] does that. With OpenSSL:
//
//	printf '%s\n%s' "$timestamp" "$body" | openssl dgst -sha256 -hmac "$secret"
//
// Any 2xx is acceptance. Everything else is tried again, after 5 s and then
// twice as long each time up to 15 min, until the incident is a day old; from
// the fifth failure on the alarm alarm-webhook-failing says so. Redirects are
// not followed. What somebody acknowledged before it was told is not told.
//
// # Concurrency
//
// Everything is in Postgres. Each instance runs a Notifier; a claim with SKIP
// LOCKED gives an incident to one of them for as long as one attempt may take,
// and a process that dies leaves it to the others. Probes of one subject for all
// instances run under a lease.
//
// # Retention
//
// The housekeeper of platform/store/outbox removes alarms that were not seen for
// --keep-records.
package alarm
