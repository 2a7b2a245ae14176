// Package inbox makes the effect of a message happen once although the message
// may be delivered several times.
//
// A consumer calls Fresh in the transaction of its effect, with the message's
// id and its own name: the row commits with the effect, so a redelivery finds it
// and has no effect. Rows are kept for 7 days, longer than the bus keeps a
// message.
//
// Concurrency: two transactions with the same message wait for each other on
// the inbox's key; the second one finds the message not fresh once the first
// has committed, fresh when it rolled back.
package inbox
