// Package order turns grants into orders and leads each order to its end.
//
// # Owns
//
// The schema orders: one row per number that was granted, whether it became an
// order or a refusal. The row is the hold: the units an item has sold or holds
// are sums over live rows, so there is no counter to drift. It also owns the
// order cache in Redis (see [Service.Get]) and nothing else there. Package coupon
// owns the coupons, package points what shoppers earn by paying.
//
// # Data flow
//
//	grants.<item> → writer → orders, stock, inbox, outbox in one transaction
//	              → order cache, holds marked persisted, acks
//	details       → LockPending → orders.details, freight, if no payment was begun
//	payment       → Payable, Choose, MarkPaid inside payment's own transactions
//	late payment  → Retake: closed → paid, with units of the item's backup
//	deadline      → ClaimDue → payments closed → CloseClaimed (payment's expiry)
//	refund        → LockForRefund, MoveRefunding, NoteTakenBack inside payment's transactions
//	cancel        → Claim → payments closed → CloseClaimed, else GiveBack (payment's route)
//	operator      → ClaimAny, Withdraw (payment's Cancel); other actions in order/desk
//	time          → completeDue: paid → completed, of what was sent or needs no sending; later of the rest (ADR 59)
//	poll          → order cache → queue → Postgres; while Redis hangs, Postgres first
//	no order yet  → Missing: payment and cancel answer like a poll
//
// The poll shows an order's row; everything that belongs to it is in the documents of
// package order/desk, which stands above this one and payment. What an activity asks of
// its shoppers lies in package order/details, the stores in order/stores, the operators'
// lists in order/search, what operators did with an order and why in order/actions. Package
// order/carrier knows who carries parcels, order/waybill reads the sheets of carriers' clients.
// What the shop's other systems keep with an order lies in orders.external_references: order/desk
// writes it, order/search finds orders by it, and keepHouse erases it.
//
// # Parts
//
// Service is the state machine: each change of an order, in its caller's transaction or
// its own. writer makes orders of grants; lookups read single orders through the cache
// and answer polls; cache is the store in Redis; checker proves what is stored.
//
// The writer settles many messages set-wise and at three levels of care: by
// COPY, expecting every entry to become an order; by INSERT … ON CONFLICT, when
// some entries are known or duplicates; and one entry after the other in stream
// order, when Postgres has fewer units than were granted. A constraint that
// aborts a transaction moves it one level up. When the data of a message is at
// fault, the writer finds the message by settling each alone, and keeps it as a
// dead letter. A message in the layout of a newer version stays in the queue for
// an instance of that version. When another transaction keeps one of the rows
// locked, the writer splits the set by item: each item's messages are written by
// a goroutine of their own, and later ones follow them there until its row is
// free, while the writer goes on with the other items (see type aside).
//
// # Invariants
//
//   - Every number on GRANTS reaches an end here: an order, a refused row with
//     its reason, or a dead letter with an alarm. A refusal is committed before
//     the shopper sees it; its event releases the units.
//   - Units leave the stock for rows that were really inserted, and return with
//     the rows that were really closed, in the same transaction.
//   - The units of a refunded order return, or are written off, in the transaction
//     that makes it refunded; a refund of a part changes no order.
//   - An order's discount is what its coupon takes off (package coupon); both change
//     in one transaction. An order is paid only by money of its amount.
//   - A user has at most one live order per item, and per activity if the
//     item's rule says so: partial unique indexes, proved again by I3.
//   - Each change of an order is one conditional UPDATE that raises its version.
//     A second attempt changes nothing and returns that.
//   - What an order costs is one sum, orders.amount in SQL and Order.Amount in Go.
//     It changes only under the order's row lock, and not once a payment was begun,
//     except by the coupon that is chosen with a payment.
//   - No version of an order replaces a newer one in the cache. How stale an
//     entry can be is described at type cache.
//   - "Not in line" is said only after a query of Postgres.
//
// # Publishes
//
// [orderevent.SubjectCreated], SubjectRefused, SubjectPaid, SubjectClosed,
// SubjectAmended, SubjectShipped, SubjectCompleted, SubjectRefunding, SubjectRefundFailed and
// SubjectRefunded through the outbox, one event for all orders of a transaction, split
// below 512 KiB.
//
// # Consumes
//
// GRANTS, by the shared durable order-writer, acknowledged after the commit.
// Its own events, by the durable order-cache, so that a change reaches the
// cache even if the process that made it died.
//
// # Locks
//
// Stock rows by (item, shard), then orders by number, then coupons, then payments; see Retake for
// the one exception. 40P01 and 40001 are retried by pg.InTx. The writer waits a
// second at most for a lock, closing a quarter of one; then each goes on item by
// item. In the process: aside.mu, never held while another lock is taken or a query
// runs.
//
// # Lifecycle
//
// New starts nothing. The writer ends when its context does: the transaction
// under way gets 3 s, and messages that are not acknowledged are redelivered,
// those set aside at once.
// A worker empties the cache of a Redis that took over from another. While Postgres is down the writer retries
// with back-off and acknowledges nothing; while Redis is down orders are still
// written, and polls share two connections to Postgres.
//
// # Size
//
// The package has more than 2,000 lines because the invariants of its parts are about
// each other, as that no version of an order replaces a newer one, and are proved by
// tests that drive them together: the models of the writer and of the cache, and those
// of stores that hang, fail over and lock.
package order
