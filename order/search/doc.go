// Package search finds orders for operators: the list and the export.
//
// # How it finds
//
// A search follows one index of orders, the newest first, and checks every filter that
// the index does not bound in memory (see filter.walks): what a query costs depends on
// how many rows it may read, not on how many orders there are, nor on a plan that
// another combination of filters could change. A page reads at most maxRead rows and
// then ends, with fewer rows than asked for and the place to go on: a filter that
// matches one order in a million gives short pages, never a slow one.
//
//	order_no, order_nos, payment_no, provider_txn, pickup_code, external_id → those numbers
//	recipient, phone_tail → the latest orders with these details
//	to_ship → what waits to be sent, by payment, the oldest first
//	disputed → open disputes    user_id, phone → the user's orders
//	updated_from, updated_until → unpaid orders by deadline, then the others by change
//	paid_from, paid_until → by payment        status → by state
//	item_id, sku, session_id, activity_id, created_from, created_until → numbers of that time
//
// Each walk is one query of orders, on the standby where there is one (pg.Standby), as are
// the batches of an export.
//
// The indexes have no entry for an order that waits for its payment, except the one by
// deadline that the expiry needs: the writer pays for none of them (ADR 0034).
//
// # How it exports
//
// An export is pages of the list, one query each: between them it holds no connection
// and rests three times as long as the page took, so that a sale and a slow client do not
// feel each other. CSV and XLSX leave with each page, and nothing of them is stored: either
// takes the memory of one page and a buffer, whatever the number of orders. Every row
// ends with the cursor behind it, which is all that going on after a broken line needs.
// The number of orders is not known before the last: progress is what has arrived, the
// time of its last row, and a log line every 100,000 rows. On two busy cores a million
// paid orders took one to five minutes, 300 MB of CSV or 160 MB of XLSX; the server's
// peak was 218 MiB after 300,000 rows and 228 MiB after a million, and rush's attempts per
// second with an export under way were 0.9 of those without, which differed by more.
//
// The export for people (people.go) is the same walk in another layout, with details, shipment
// and refunds read for each batch (parcels). Its numbers are texts to a spreadsheet, and no cell
// is a formula (platform/base/spreadsheet).
//
// # Owns
//
// Nothing: it reads order's table, asks payment for the orders of its numbers, the
// account module for phones and seckill for what was on sale. Who may read a whole
// phone is decided here, by role.
package search
