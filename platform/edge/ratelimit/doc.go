// Package ratelimit bounds how often a subject (a user, an address, a phone) may
// do something, across all instances of the shop.
//
// The algorithm is GCRA, the generic cell rate algorithm of ATM networks (ITU-T
// I.371, annex A), in its virtual scheduling form. The state of a rule's subject is
// one number, its theoretical arrival time (TAT): when everything it has taken so far
// will have been refilled. With an interval of Per/Count, a take advances the TAT by
// one interval, starting from now if it lies in the past, and is refused if the TAT
// would then lie more than Count intervals ahead. That is a token bucket of Count
// tokens without a token counter and without a timer to refill it.
//
// A Take of several rules (per user and per address) is all or nothing: refused by
// one, it costs nothing at the others. It has two steps.
//
//   - Memory. Each process keeps the newest TATs that it knows in a table of fixed
//     size. A subject over a limit there is refused immediately, so that a flood
//     from one subject does not reach Redis more often than the rule allows.
//   - Redis. One call of take.lua decides by the server's clock: all rules are
//     computed, then all are written. The answer updates the table.
//
// The table is at most stricter than Redis by what another instance's Redis forgot,
// and at most looser by what other instances took since: Redis decides. While Redis
// is down, hangs or is full, the tables decide alone: a subject then gets at most
// Count times the number of instances. That is preferred to refusing every request,
// and counted in stampede_ratelimit_alone_total.
//
// Takes that arrive during a call go together in the next one (platform/base/batch):
// Redis syncs its file once for all of them. A single instance keeps rules of up to a
// minute in its table only and does not call Redis for them; a restart forgives a
// minute. Longer rules, such as SMS codes per day, still go to Redis.
//
// In a Redis cluster all keys share one slot. A script may touch only one slot, a
// user's and an address's keys would otherwise lie in two, and rules that are taken
// one by one cannot be all or nothing. One node decides more takes per second than
// the instances of a shop can serve, because the tables filter first.
//
// Memory in Redis is bounded by the takes of the longest window: a key is about 100
// bytes and expires when its subject's quota is full again. Keys are hashes, so that
// no phone or address can be read from Redis.
//
// [Limiter.TakeHere] uses the table alone, for limits that each instance keeps for
// itself: it is cheap enough for every request.
//
// Repeats is the same algorithm for the rush itself: memory only, one atomic word
// per user.
package ratelimit
