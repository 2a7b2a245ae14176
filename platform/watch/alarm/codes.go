package alarm

// What platform itself raises. The stores that raise theirs get Raise from main.
var (
	BooksBroken = Define("books-broken", Critical,
		"A check of the running server found an invariant violated, twice in a row: units or money are not accounted for.",
		"Pause the item if it is on sale. Run `stampede verify` for the whole account and repair what it names before you resume the item.")
	OutboxRefused = Define("outbox-refused", Critical,
		"An event is too large for NATS and waits in the outbox.",
		"Raise max_payload of the NATS server to at least 2 MB; the event is then sent automatically.")
	OutboxBehind = Define("outbox-behind", Critical,
		"Committed events have waited in the outbox for a minute: pushes, releases and what follows a payment are late.",
		"Check the health of NATS and the log lines of the outbox relay; a full EVENTS stream drains with its consumers. The events are then sent automatically.")
	RedisUnreachable = Define("redis-unreachable", Critical,
		"An instance does not reach Redis. It answers rushes with 503.",
		"Restore Redis or the connection to it. Items that Redis lost are loaded again automatically.")
	PostgresUnreachable = Define("postgres-unreachable", Critical,
		"An instance did not reach Postgres. Meanwhile grants waited in line, no shopper could pay and no operator could change a sale. The alarm is recorded afterwards, with how long the outage lasted.",
		"If the outage goes on, restore Postgres or the connection to it; the order writer catches up by itself. Otherwise find out in the log of Postgres why it was away.")
	BusUnhealthy = Define("bus-unhealthy", Critical,
		"An instance cannot publish durably: JetStream does not answer, reports a write error, or is being restarted. Rushes are refused before Redis deducts a unit.",
		"Check the NATS server and its disk. The embedded server restarts by itself once its folder is writable.")
	GrantsFull = Define("grants-full", Critical,
		"The stream of grants is nearly full because the order writer is behind, so rushes are refused.",
		"Check the health of Postgres and the writer's log lines. Rushes are accepted again when the writer has caught up.")
	DatabaseWentBack = Define("database-went-back", Critical,
		"Postgres is older than what Redis was filled from: a backup was restored, or a replica took over that lacked the last commits.",
		"Where the detail says that Redis was emptied, run `stampede verify`. Otherwise restart the servers one after the other first: each start detects the rollback and fills Redis anew. Compare the lost time with the payment provider's statement.")
	DiskNearlyFull = Define("disk-nearly-full", Critical,
		"The disk has less free space than the streams may still grow by.",
		"Free space or lower --grants-max-mib and --events-max-mib; on a full disk rushes are refused until there is space again.")
	WebhookFailing = Define("alarm-webhook-failing", Warning,
		"The receiver of the alarm webhook has not accepted a message for several attempts. Retries go on for a day.",
		"Compare --alarm-webhook-url and its secret with the receiver's, and read the detail. Meanwhile alarms are in the list and in the metric.")
)
