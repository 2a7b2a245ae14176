package alarm

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"stampede/platform/store/pg"
)

// Severity says whether the alarm may wait until the morning.
type Severity string

// The severities.
const (
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
	Meaning  string // the problem, in sentences
	Action   string // what to do next, step by step
}

// defined contains every definition of the program. It is complete before main runs.
var defined = map[Code]*Definition{}

// Define makes a definition and adds it to the list that operators read. Call it for
// a package's variables only. A second definition of a code, and one without texts,
// are programming errors.
func Define(code Code, severity Severity, meaning, action string) *Definition {
	if defined[code] != nil || !strings.HasSuffix(meaning, ".") || !strings.HasSuffix(action, ".") {
		panic(fmt.Sprintf("alarm: %s is defined twice or not explained", code))
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
		b.WriteString("| `" + string(d.Code) + "` | " + string(d.Severity) + " | " + d.Meaning + " | " + d.Action + " |\n")
	}
	return b.String()
}

// The alarms that platform raises. Stores that raise alarms get Raise from main.
var (
	BooksBroken = Define("books-broken", Critical,
		"A check of the running server found an invariant violated, twice in a row: units or money are not accounted for.",
		"Pause the item if it is on sale. Run `stampede verify` for the full result and repair what it reports before you resume the item.")
	OutboxRefused = Define("outbox-refused", Critical,
		"NATS refuses an event, which waits and is tried again: it is too large, or no stream has its subject.",
		"Raise max_payload of the NATS server to at least 2 MB; the event is then sent automatically within half an hour, or at once if you redrive it (`GET /api/v1/admin/messages`).")
	OutboxFailed = Define("outbox-failed", Critical,
		"NATS has refused an event for so long (--retry-refused) that it is not tried any more. The event is kept; what it announces has not happened.",
		"Repair the cause that the detail names, then redrive it: `POST /api/v1/admin/messages/redrive`.")
	OutboxBehind = Define("outbox-behind", Critical,
		"Committed events have waited in the outbox for a minute: pushes, releases and the processing of payments are late.",
		"Check the health of NATS and the log lines of the outbox relay; if EVENTS is full, the line \"events are kept for a slow consumer\" names the consumer whose handler must succeed again. The events are then sent automatically.")
	RedisUnreachable = Define("redis-unreachable", Critical,
		"An instance cannot reach Redis. It answers rushes with 503.",
		"Restore Redis or the connection to it. Items that Redis lost are loaded again automatically.")
	RedisRefuses = Define("redis-refuses-writes", Critical,
		"Redis answers an instance and takes no writes: it is full, is a replica, or cannot save to its disk. Rushes are refused with 503 before a unit is taken; units that come back wait.",
		"Read the detail, which says why and what to do. The sale then continues automatically.")
	PostgresUnreachable = Define("postgres-unreachable", Critical,
		"An instance could not reach Postgres. Meanwhile grants were queued, shoppers could not pay and operators could not change sales. The alarm is recorded after the outage, with its duration.",
		"If the outage continues, restore Postgres or the connection to it; the order writer then catches up automatically. Otherwise check the Postgres log for the cause.")
	BusUnhealthy = Define("bus-unhealthy", Critical,
		"An instance cannot publish durably: JetStream does not answer, reports a write error, or is being restarted. Rushes are refused before Redis deducts a unit.",
		"Check the NATS server and its disk. The embedded server restarts automatically once its folder is writable.")
	GrantsFull = Define("grants-full", Critical,
		"The stream of grants is nearly full because the order writer is behind, so rushes are refused.",
		"Check the health of Postgres and the writer's log lines. Rushes are accepted again when the writer has caught up.")
	DatabaseWentBack = Define("database-went-back", Critical,
		"Postgres is older than the state that Redis was filled from: a backup was restored, or a replica without the last commits took over.",
		"If the detail says that Redis was emptied, run `stampede verify`. Otherwise first restart the servers one by one: each start detects the rollback and refills Redis. Compare the lost time with the payment provider's statement.")
	DiskNearlyFull = Define("disk-nearly-full", Critical,
		"The disk has less free space than the streams may still need.",
		"Free space or lower the settings that end in -max-mib; on a full disk rushes are refused until there is space again.")
	WebhookFailing = Define("alarm-webhook-failing", Warning,
		"The receiver of the alarm webhook has not accepted a message in several attempts. Retries continue for a day.",
		"Compare --alarm-webhook-url and its secret with the receiver's, and read the detail. Until then check the list of alarms or the metric.")
)
