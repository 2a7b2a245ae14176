// Package bench measures the server on the reader's own machine: every stage of
// the way beside its bare floor, in one run, as a ratio. A ratio travels from
// machine to machine where a figure does not; the figures are printed beside it.
//
// # How a stage is measured
//
// A [Stage] has two sides that do the same work: ours, and the floor, the least
// that anything must do which ends in the same bytes or the same rows. Each side
// is warmed up once, which also tells how many operations fill a round; then the
// sides run in turns (floor, ours, floor, ours …), so that a machine that slows
// down or a noisy neighbour meets both. A round's ratio is ours over the floor
// next to it; the report prints the median and the spread of the rounds.
//
// Beside the wall clock stands the processor time per operation of all processes
// that took part, by process. It hardly depends on what else the machine does,
// and it tells who pays. Where this process only plays the clients, it is left
// out of the sum.
//
// # What is started
//
// A [Rig] is a private stack in a temporary folder, ended and deleted with the
// run, also when that is killed: Postgres and Redis as `stampede run` starts them
// (append-only file and write-ahead log synced always), and for the stages that
// speak HTTP the server as a child process, as it would run beside those stores.
// Floors that serve are children of the same program, on the same listener with
// the same bounds, so that both sides meet the same generator over the same
// loopback.
//
// Modules export the stages that need their insides; this package has those that
// only speak HTTP. main lists them. Nothing here is safe for concurrent use: one
// run measures one thing at a time, or it measures nothing.
package bench
