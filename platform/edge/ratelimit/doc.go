// Package ratelimit bounds how often a subject (a user, an address, a phone) may
// do something, over all instances of the shop.
//
// The algorithm is GCRA, the generic cell rate algorithm of ATM networks (ITU-T
// I.371, annex A), in its virtual scheduling form. A subject of a rule is one
// number, its theoretical arrival time (TAT): when everything it has taken so far
// will have been refilled. With an interval of Per/Count, a take moves the TAT one
// interval on, from now if it lies behind, and is refused if it would then lie
// more than Count intervals ahead. That is a token bucket of Count tokens without
// a token to count and without a timer to refill it.
//
// A Take of several rules (per user and per address) is all or nothing: refused by
// one, it costs nothing at the others. It has two steps.
//
//   - Memory. Each process keeps what it knows of the newest TATs in a table of
//     fixed size. Whoever is over a limit there is refused at once, so that a flood
//     from one subject does not reach Redis more often than the rule allows.
//   - Redis. One call of take.lua decides by the server's own clock: all rules are
//     computed, then all are written. The answer goes into the table.
//
// The table is at most stricter than Redis by what another instance's Redis
// forgot, and at most looser by what other instances took since: Redis decides.
// While Redis is away, hangs or is full, the tables decide alone: a subject then
// gets at most Count times the number of instances. That is chosen over refusing
// everybody, and counted in stampede_ratelimit_alone_total.
//
// Takes that come while a call is under way go together in the next one
// (platform/base/batch): Redis syncs its file once for all of them. An instance that is
// alone keeps rules of up to a minute in its table and does not ask Redis about
// them; a restart forgives a minute. Longer ones, such as SMS codes a day, are
// Redis's all the same.
//
// In a Redis cluster all keys share one slot. A script touches one slot, a user's
// and an address's keys would otherwise lie in two, and rules that are taken one by
// one cannot be all or nothing. One node decides more takes in a second than the
// instances of a shop can serve, because the tables stand before it.
//
// Memory in Redis is bounded by the takes of the longest window: a key is about 100
// bytes and ends when its subject's quota is full again. Keys are hashes, so that no
// phone or address can be read from Redis.
//
// Repeats is the same algorithm for the rush itself: memory only, one atomic word
// for a user.
package ratelimit
