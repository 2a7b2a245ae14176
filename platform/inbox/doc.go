// Package inbox makes the effect of a message happen once although the message
// may come several times, and keeps those that a consumer has given up on.
//
// A consumer calls Fresh in the transaction of its effect, with the message's
// id and its own name: the row commits with the effect, so a redelivery finds it
// and has no effect. Rows are kept for 7 days, longer than the bus keeps a
// message.
//
// A message that a consumer has given up on is a dead letter: a row with all
// that is needed to send it again, and an alarm. Operators list them, look at
// one, and redrive one or all of a consumer (Routes). A redriven message keeps
// its id, so an effect that did commit is not repeated; the letter goes with the
// commit that sends it, so of two who redrive it one finds it gone. Letters are
// kept for --keep-records.
//
// Concurrency: two transactions with the same message wait for each other on
// the inbox's key; the second one finds the message not fresh once the first
// has committed, fresh when it rolled back.
package inbox
