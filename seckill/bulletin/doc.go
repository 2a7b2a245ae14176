// Package bulletin publishes what becomes of sessions and items while they are on sale,
// for the shop's own systems (package notify/webhook).
//
// # Events
//
//	session.opened    its time has come, and its activity is published
//	session.ended     it closed, or its activity was ended or terminated
//	item.opened       the next attempt at the item is decided: it is loaded, and not paused
//	item.sold_out     no units are left; those that are held may come back
//	item.units_back   units are left again, returned or added
//
// Sessions go by Postgres's clock and the plan. What is left of an item is what Redis
// says, because Redis decides on the next attempt: units of a closed order are back when
// shoppers can take them, which is some time after Postgres has them.
//
// # Once each, and what is coalesced
//
// One instance looks each second, under a lease, and compares with what was published
// last (seckill.told_sessions, told_items). An event and the row that says so are one
// transaction, whose conditional statements let one of two leaders publish. A restart or
// another leader goes on where the last one was.
//
//   - An item that sells out within a second of its opening is published as opened and
//     then as sold out.
//   - Units that come back and are taken again between two looks are not published. After
//     one of sold_out and units_back the other one waits for 5 seconds, and is left out if
//     the item has changed back by then.
//   - Nothing is published about an item while it is paused, being loaded, or its Redis
//     does not answer, and nothing after its session has ended.
//   - A session that was over before any instance saw it open, because none ran, is
//     published as opened and as ended, without its items.
//   - A session whose end is put off after it ended opens again.
//
// # Cost
//
// Two statements and one pipeline that reads states, each second, in the shop: nothing for
// an attempt or an order.
package bulletin
