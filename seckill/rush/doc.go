// Package rush is the hot half of seckill: it issues signed paths, accepts the
// attempts sent with them, calls inventory to decide who wins, and makes sure
// that every grant becomes an order or a refusal.
//
// Nothing here queries Postgres before an attempt is decided, and most attempts
// end in memory. Of the planning half the package knows only the catalogue; of
// orders, an interface of two methods (Orders).
//
// # An attempt's route
//
//  1. POST items/{id}/rush-path, with a token (path_issue.go): the catalogue, the
//     window, the quantity, then Deps.Admit, the door.
//     The answer is a path that carries user, item, quantity, order number and
//     times. One path is one attempt, however often it is sent. The number carries
//     its item's tag and the Redis server's time, so that any instance finds the
//     item (places.go).
//  2. POST rush/{path}, with nothing else (serve.go). No middleware runs before it,
//     and a refusal before the lane costs no allocation.
//     For an item with an admission rate it first waits for its user's turn, which
//     all instances share (pace.go, turns.lua): in its request if the turn is
//     near, else the answer is the place in line, and the attempt is sent again.
//  3. The item's lane, a bounded line in this process (lane.go). Its workers take
//     the waiting attempts and pass all of them to inventory in one call
//     (lane_worker.go).
//  4. Refusals are answered immediately (lane_settle.go). Grants go out as one
//     durable message, repeated until it is stored or its deadline, which started
//     before the call to Redis, has passed (lane_settle.go). Only then are its
//     shoppers answered: queued, not won, or unknown.
//  5. A hold whose order does not appear is settled by the sweeper of seckill/queue,
//     which queries first and republishes last.
//
// # The order of the checks
//
// A rush is checked in order of cost; the first check that refuses answers:
//
//	size of the body            too-large
//	signature of the path       bad-path
//	times of the path           path-expired, not-started
//	catalogue                   ended
//	flag, unless in its filter  sold-out, all-held
//	window of the item          not-started, ended
//	repeats of the user         rate-limited
//	pause of the user           cooling-down
//	places, writer's lag        too-hot, unless in the filter
//	turn, with a rate           wait-your-turn, too-hot behind all places, paused, unless in the filter
//	room in the lane            too-hot; draining once the lane has ended
//	catalogue and flag again    ended, sold-out, all-held; draining
//	health of the stream        unavailable
//	Redis                       everything else; unknown without an answer
//	publication                 unknown
//
// An attempt about to be refused because its item has ended, is paused or
// fenced, or cannot be stored, or because its user has to pause, is looked up
// first: a number that was granted before gets its first answer again
// (Service.again).
//
// # Who owns what
//
// The handler owns its attempt. It puts it into the lane's queue and reads the
// verdict only after done, which has capacity one so that no worker ever waits
// for a handler; the lane answers each attempt it took exactly once. The handler
// returns it to the pool.
//
// The lane owns its queue and closes it (end), under the write lock of mu;
// handlers send under the read lock and never block. A full queue refuses with
// too-hot. Two workers per lane: deciding is held by the worker that collects a
// batch, calls Redis and raises the flag, and released before it publishes, so
// that one batch is decided while the previous one is published. There is no
// timer: a batch is what has collected meanwhile, up to inventory.MaxBatch.
//
// The pacer (pace.go) of an item with a rate owns the attempts before the queue, from
// enter until it puts them into the queue or answers them. Its goroutine begins with
// the first of them and exits when the rate is removed or the lane has ended; it does
// not wait for a full queue, but looks again. A client that leaves while its attempt
// waits keeps its turn, as does one that was told to come again: the turn passes
// unused, and can be taken for a minute more.
//
// The lanes (lanes.go) own their workers. Each lane is ended when its item is
// over, and all of them when the process stops, after HTTP has drained:
// attempts still in line are answered draining.
//
// The flag (flag.go) is a promise about all users except the holders in its
// filter (platform/base/bloom), which has only false positives. A decision raises it and
// a newer count of returns ends it, in whatever order the two arrive. All of
// its state that refusals do not read belongs to the worker that holds
// deciding.
//
// # Locks
//
// The few locks, in the order in which they may be taken together:
//
//	lane.deciding    then lane.mu (has it ended); its own lane.asks, then shards.mu (a lane begins)
//	shards.mu        then lane.asks of all lanes, for stillFor at most, then the flag's mu
//	lane.mu          around one send alone; around the closing, then pacer.mu
//	pacer.mu         alone: around its lists of what has arrived
//	itemIndex.mu     alone: a lane is created under it, without any call out
//
// deciding is held during the call to Redis; none is held while a message is
// published. A refusal at the flag reads atomics.
//
// # Invariants
//
//   - A user who may hold a unit, as far as this instance knows, or whose number
//     held one, is never answered sold-out, all-held or wait-your-turn, and too-hot only by a full queue.
//     For what it cannot know for a moment see soldOut.
//   - No number is answered 202 before it is decided, however long its user waits for the turn.
//   - An answer names a number, as queued or as already bought, only after its
//     message was stored.
//   - A repeated path never has a second effect. Once it was granted its answers
//     never contradict each other, and a position never rises; a refusal that says
//     so may be followed by a grant.
//   - Holds whose publication is in doubt stay with their number and are never
//     released here. A repetition publishes them again, and so does the sweeper,
//     which queries Postgres and the stream first; the writer accepts a number once.
//
// # Publishes and consumes
//
// Publishes grants.<item> (seckillevent.Batch) through seckill/queue. Listens to
// inventory's broadcasts of returned units and of Loads, which clear flags.
//
// # Size
//
// The package has more than 2,000 lines because an attempt passes paths, flags and lanes
// without a copy: what one of them knows of a number, the others read in memory that
// only this package writes.
package rush
