// Package rush is the hot half of seckill: it hands out signed paths, takes the
// attempts that come with them, asks inventory who wins, and sees to it that
// every grant becomes an order or a refusal.
//
// Nothing here asks Postgres before an attempt is decided, and most attempts end
// in memory. Of the planning the package knows the catalogue alone; of orders, an
// interface of two questions (Orders).
//
// # An attempt's way
//
//  1. POST items/{id}/rush-path, with a token (path_issue.go): the catalogue, the
//     window, the quantity, then Deps.Admit, the door.
//     The answer is a path that carries user, item, quantity, order number and
//     times. One path is one attempt, however often it is sent.
//  2. POST rush/{path}, with nothing else (serve.go). No middleware stands before
//     it, and whoever is refused before the lane costs no allocation.
//  3. The item's lane, a bounded line in this process (lane.go). Its workers take
//     what waits and ask inventory about all of it in one call (lane_worker.go).
//  4. Who was not granted is told at once (lane_settle.go). What was granted goes
//     out as one durable message, repeated until it is stored or its time, which
//     began before Redis was asked, is over (lane_publish.go). Only then are its
//     shoppers told: queued, not won, or unknown.
//  5. A hold whose order does not come is settled by the sweeper, which asks
//     first and publishes again last (sweeper.go, sweeper_round.go).
//
// # The order of the questions
//
// A rush is asked what costs least first; the first that refuses answers:
//
//	size of the body            too-large
//	signature of the path       bad-path
//	times of the path           path-expired, not-started
//	catalogue                   ended
//	flag, unless in its filter  sold-out, all-held
//	window of the item          not-started, ended
//	repeats of the user         rate-limited
//	places, writer's lag, rate  too-hot, unless in the filter
//	room in the lane            too-hot; draining once the lane has ended
//	catalogue and flag again    ended, sold-out, all-held; draining
//	health of the stream        unavailable
//	Redis                       everything else; unknown without an answer
//	publication                 unknown
//
// Whoever is about to be refused for the item's sake, because it has ended, is
// paused or fenced or cannot be written down, is looked up once more: a number
// that has had its grant gets the answer of the first time (again.go).
//
// # Who owns what
//
// The handler owns its attempt. It puts it into the lane's queue and reads the
// verdict only after done, which has one place so that no worker ever waits for
// a handler; the lane answers each attempt it took exactly once. The handler puts
// it back into the pool.
//
// The lane owns its queue and closes it (end), under the write lock of mu;
// handlers send under the read lock and never block. A full queue refuses with
// too-hot. Two workers per lane: deciding is held by the one that gathers a batch,
// asks Redis and raises the flag, and let go before it publishes, so that one
// batch is decided while the one before it is written down. There is no timer: a
// batch is what gathered meanwhile, up to inventory.MaxBatch.
//
// The lanes (lanes.go) own their workers. They are ended one by one when their
// item is over, and all of them when the process stops, after HTTP has drained:
// whoever is still in line is answered draining.
//
// The flag (flag.go) is a promise about everybody but the holders in its filter
// (filter.go), which has false positives only. A decision raises it and a newer
// count of returns ends it, in whatever order the two arrive. All of it that is
// not read by refusals belongs to the worker that holds deciding.
//
// # Locks
//
// The few there are, in the order in which they may be taken together:
//
//	lane.deciding    then lane.mu (has it ended)
//	lane.mu          alone: around one send, or the closing
//	itemIndex.mu     alone: a lane is made under it, which asks for nothing
//	Service.ratesMu  alone: one reading of the admission rates at a time
//
// deciding is held while Redis is asked, ratesMu while the rates are read; none is
// held while a message is published. A refusal at the flag reads atomics and a
// freecache.
//
// # Invariants
//
//   - Whoever may hold a unit, by what this instance knows, is never told sold-out
//     or all-held, and too-hot only by a full queue. What it cannot know for a
//     moment is said at soldOut.
//   - A number is named in an answer, as queued or as already bought, only after
//     its message was stored.
//   - A repeated path never has a second effect. Once it was granted its answers
//     never contradict each other, and a position never rises; a refusal that says
//     so may be followed by a grant.
//   - Holds whose publication is in doubt stay with their number and are never given
//     back here. A repetition publishes them again, and so does the sweeper, which
//     asks Postgres and the stream first; the writer takes a number once.
//
// # Publishes and consumes
//
// Publishes grants.<item> (seckillevent.Batch) straight to the bus and
// broadcast.seckill.admission, which it also listens to. Listens to inventory's
// broadcasts of returned units and of Loads, which clear flags.
package rush
