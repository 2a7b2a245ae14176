// Package bench measures the server on the reader's own machine, as a shopper meets
// it: over HTTP and WebSocket, each stage beside a bare baseline, in one run, as a
// ratio. A ratio travels from machine to machine where a figure does not; the
// figures are printed beside it. What needs a module's insides (a decision, a
// durable publish, the writer's transaction) is a Go benchmark of that module.
//
// # How a stage is measured
//
// A [Stage] has two sides that do the same work: ours, and the baseline, the least
// that anything must do which answers with the same bytes. Each side
// is warmed up once, which also tells how many operations fill a round; then the
// sides run in turns (baseline, ours, baseline, ours …), so that a machine that slows
// down or a noisy neighbour meets both. A round's ratio is ours over the baseline
// next to it; the report prints the median and the spread of the rounds.
//
// Beside the wall clock stands the processor time per operation of all processes
// that took part, by process. It hardly depends on what else the machine does,
// and it tells who pays. This process plays the clients, by package loadgen, and
// is left out of the sum.
//
// # What is started
//
// A [Rig] is a private stack in a temporary folder, ended and deleted with the
// run, also when that is killed: Postgres and Redis as `stampede run` starts them
// (append-only file and write-ahead log synced always), and the server as a child
// process, as it would run beside those stores. The baseline is a child of the same
// program, on the same listener with the same bounds, so that both sides meet the
// same generator over the same loopback.
//
// Nothing here is safe for concurrent use: one run measures one thing at a time, or
// it measures nothing.
package bench
