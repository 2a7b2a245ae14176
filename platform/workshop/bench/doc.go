// Package bench measures the server on the reader's own machine, as a shopper
// experiences it: over HTTP, each stage compared with a bare
// baseline in the same run, as a ratio. A ratio can be compared between
// machines, an absolute figure cannot; the figures are printed beside it.
// Measurements that need a module's internals (a decision, a durable publish,
// the writer's transaction) are Go benchmarks of that module.
//
// # How a stage is measured
//
// A [Stage] has two sides that do the same work: ours, and the baseline, the
// minimum that any server must do to answer with the same bytes. Each side is
// warmed up once, which also determines how many operations fill a round; then
// the sides alternate (baseline, ours, baseline, ours …), so that a machine
// that slows down or a noisy neighbor affects both. A round's ratio is ours
// over the baseline next to it; the report prints the median and the spread of
// the rounds.
//
// The report also gives the processor time per operation of all processes that
// took part, by process. It hardly depends on the machine's other load, and it
// shows where the cost is. This process plays the clients, with package
// loadgen, and is excluded from the sum.
//
// # What is started
//
// A [Rig] is a private stack in a temporary folder, stopped and deleted with
// the run, even if the run is killed: Postgres and Redis as `stampede run`
// starts them (append-only file and write-ahead log synced always), and the
// server as a child process, as it would run beside those stores. The baseline
// is a child of the same program, on the same listener with the same bounds, so
// that both sides serve the same load generator over the same loopback. Several
// instances share a Redis Cluster and a NATS cluster, beside as many baselines.
//
// Nothing here is safe for concurrent use: one run measures one thing at a time, or
// it measures nothing.
//
// # Size
//
// The package has more than 2,000 lines because a measurement is one rig: stores, servers,
// clients, meter and report are changed together, and a capacity is reckoned from the
// figures of that report.
package bench
