package alarm

import "strings"

// Severity says whether the alarm may wait for the morning.
type Severity string

// The severities.
const (
	Warning  Severity = "warning"  // nothing is lost; look during working hours
	Critical Severity = "critical" // shoppers or money are affected now
)

// Code names what happened. It is part of the API: receivers of the webhook and
// alert rules go by it, so a code never changes its meaning.
type Code string

// Every code there is. What each means and what to do is in the table below,
// which operators read in the API's documentation.
const (
	// The books.
	BooksBroken        Code = "books-broken"
	BooksDiffer        Code = "books-differ"
	StockShortfall     Code = "stock-shortfall"
	GrantsWithoutStock Code = "grants-without-stock"
	HoldStuck          Code = "hold-stuck"
	// The way from a grant to its order and what follows.
	WriterStuck    Code = "writer-stuck"
	DeadLetter     Code = "dead-letter"
	ReleaseFailing Code = "release-failing"
	OutboxRefused  Code = "outbox-refused"
	OutboxBehind   Code = "outbox-behind"
	// The parts that Stampede stands on.
	ItemFenced          Code = "item-fenced"
	PreheatFailed       Code = "preheat-failed"
	PostgresUnreachable Code = "postgres-unreachable"
	RedisUnreachable    Code = "redis-unreachable"
	BusUnhealthy        Code = "bus-unhealthy"
	GrantsFull          Code = "grants-full"
	DatabaseWentBack    Code = "database-went-back"
	DiskNearlyFull      Code = "disk-nearly-full"
	WebhookFailing      Code = "alarm-webhook-failing"
	// Money.
	PaymentMismatch          Code = "payment-mismatch"
	PaymentUnknown           Code = "payment-unknown"
	PaymentForeignMerchant   Code = "payment-foreign-merchant"
	PaymentTransactionReused Code = "payment-transaction-reused"
	PaymentProviderMissing   Code = "payment-provider-missing"
	PaymentProviderFailing   Code = "payment-provider-failing"
	PaymentLate              Code = "payment-late"
	RefundFailed             Code = "refund-failed"
	RefundStuck              Code = "refund-stuck"
)

// Definition is what a code says to the person who is called.
type Definition struct {
	Code     Code
	Severity Severity
	Meaning  string // one sentence: what is the case
	Action   string // what to do next, in the order to do it
}

// definitions is the list that operators read. Its order is that of urgency
// within each group: what endangers the books, the flow, the parts, the money.
var definitions = []Definition{
	{
		BooksBroken, Critical,
		"A check of the running server found an invariant violated and found it again: units or money are not accounted for.",
		"Pause the item if it is on sale. Run `stampede verify` for the whole account and repair what it names before resuming.",
	},
	{
		BooksDiffer, Critical,
		"While an item was loaded, its stock row and its live orders did not add up. It was loaded from the row, whose CHECKs guard it.",
		"Run `stampede verify`; pause the item if it is on sale.",
	},
	{
		StockShortfall, Critical,
		"Redis granted more units than Postgres had. The numbers beyond were refused; nothing was oversold.",
		"Pause the item and run `stampede verify`. Look whether Redis was restored from a backup or failed over to a replica that was behind.",
	},
	{
		GrantsWithoutStock, Critical,
		"Grants came for an item that has no stock row and were refused.",
		"Find out whether a backup of Postgres was restored while the server ran; if so, restart the server, which notices and fills Redis anew.",
	},
	{
		HoldStuck, Critical,
		"A number was granted, its grant was published again and taken, and it still became neither an order nor a refusal.",
		"Look for the number among the dead letters of order-writer, repair what their error says, and redrive them.",
	},
	{
		WriterStuck, Critical,
		"The order writer cannot commit a batch although it keeps trying. Shoppers wait in line, and nothing is lost.",
		"Read the log line \"orders not written, trying again\" and the alarm's detail; look at the health, locks and disk of Postgres. The writer goes on by itself.",
	},
	{
		DeadLetter, Critical,
		"A consumer gave up on a message after all its attempts. The message is kept.",
		"Read the dead letter's error, repair its cause, then redrive the dead letter.",
	},
	{
		ReleaseFailing, Critical,
		"Ended or paid orders cannot be brought into Redis: units that came back are not on sale. It is tried on for a day.",
		"Read the log line about the consumer in the subject and the alarm's detail; look at the health and memory of Redis. If the item's keys are damaged, delete its state key in Redis (its name ends in :<item>:state): it is loaded anew by itself.",
	},
	{
		OutboxRefused, Critical,
		"An event is too large for NATS and waits in the outbox.",
		"Raise max_payload of the NATS server to at least 2 MB; the event then goes out by itself.",
	},
	{
		OutboxBehind, Critical,
		"Committed events have waited in the outbox for a minute: pushes, releases and what follows a payment are late.",
		"Look at the health of NATS and at the log lines of the outbox relay; a full EVENTS stream drains with its consumers. The events go out by themselves.",
	},
	{
		ItemFenced, Critical,
		"An item whose sale is open is not loaded, and shoppers are told to come back.",
		"Look at the health of Redis, NATS and Postgres and at the log line \"item not loaded\"; if the order writer is behind, the item opens when it has caught up.",
	},
	{
		PreheatFailed, Critical,
		"An item could not be loaded several times in a row. It cannot be sold until it is.",
		"Look at the health of Redis, NATS and Postgres and at the log line \"item not loaded\"; it is tried again by itself.",
	},
	{
		RedisUnreachable, Critical,
		"An instance does not reach Redis. It answers rushes with 503.",
		"Bring Redis or the way to it back. Items are loaded again by themselves if it lost them.",
	},
	{
		PostgresUnreachable, Critical,
		"An instance did not reach Postgres. Meanwhile grants wait in line, and nobody can pay or change a sale. It is recorded afterwards, with how long it lasted.",
		"If it goes on, bring Postgres or the way to it back; the order writer catches up by itself. Else look in the log of Postgres for why it was away.",
	},
	{
		BusUnhealthy, Critical,
		"An instance cannot publish durably: JetStream does not answer, reports a write error, or is being restarted. Intake refuses before Redis deducts.",
		"Look at the NATS server and its disk. The embedded server is restarted by itself once its folder can be written to.",
	},
	{
		GrantsFull, Critical,
		"The stream of grants is nearly full because the order writer is behind, and intake refuses.",
		"Look at the health of Postgres and at the writer's log lines. Intake opens by itself when the writer has caught up.",
	},
	{
		DatabaseWentBack, Critical,
		"Postgres is older than what Redis was filled from: a backup was restored, or a replica took over that lacked the last commits.",
		"Where the detail says that Redis was emptied, run `stampede verify`. Otherwise restart the servers one after the other first: a start notices and fills Redis anew. Compare the lost time with the payment provider's statement.",
	},
	{
		DiskNearlyFull, Critical,
		"The disk has less room left than the streams may still grow to.",
		"Free space or lower --grants-max-mib and --events-max-mib; a full disk stops intake until there is room again.",
	},
	{
		WebhookFailing, Warning,
		"The receiver of the alarm webhook has not accepted a message for several attempts; it is tried on for a day.",
		"Compare --alarm-webhook-url and its secret with the receiver's, and read the detail. Alarms are in the list and in the metric meanwhile.",
	},
	{
		PaymentMismatch, Critical,
		"A provider stated another sum than was asked for. The order is not paid.",
		"Compare the payment with the provider's statement; what moved is refunded by itself once the provider confirms it.",
	},
	{
		PaymentUnknown, Critical,
		"A provider reports money under a number that is not ours.",
		"Find it in the provider's statement and refund it there.",
	},
	{
		PaymentForeignMerchant, Critical,
		"A provider signed a message for another merchant with our key.",
		"Compare the merchant number in the settings with the provider's.",
	},
	{
		PaymentTransactionReused, Critical,
		"A provider gave two movements one transaction number; the second movement is not in the ledger.",
		"Ask the provider which of the two moved, and correct the other with them.",
	},
	{
		PaymentProviderMissing, Critical,
		"Payments or refunds are open at a provider that is not configured any more.",
		"Configure it again until they are done.",
	},
	{
		PaymentProviderFailing, Critical,
		"Calls to a payment provider keep failing: shoppers cannot start payments, and orders whose payment is open are not closed.",
		"Look at the provider's own status page and at the log; restock waits for it, so tell the shoppers if it lasts.",
	},
	{
		PaymentLate, Warning,
		"Money came for an order that was closed, refused or paid already. It is refunded by itself.",
		"Nothing, while it is single cases. If they pile up, the payment window is too short for the provider or its callbacks are late.",
	},
	{
		RefundFailed, Critical,
		"The provider will not make a refund. The shopper's money is still with us.",
		"Pay it back another way and settle it with the provider.",
	},
	{
		RefundStuck, Warning,
		"A refund has been tried often and is still not done; it is tried on.",
		"See its last_error and whether the provider is reachable.",
	},
}

// byCode finds a definition.
var byCode = func() map[Code]Definition {
	m := make(map[Code]Definition, len(definitions))
	for _, d := range definitions {
		m[d.Code] = d
	}
	return m
}()

// Definitions returns every code there is with its meaning, for documentation
// and for tests. The caller must not change it.
func Definitions() []Definition { return definitions }

// codeTable is the list as the API's documentation shows it.
func codeTable() string {
	var b strings.Builder
	b.WriteString("| code | severity | what is the case | what to do |\n|---|---|---|---|\n")
	for _, d := range definitions {
		b.WriteString("| `" + string(d.Code) + "` | " + string(d.Severity) + " | " + d.Meaning + " | " + d.Action + " |\n")
	}
	return b.String()
}
