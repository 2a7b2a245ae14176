// Package deadletters stores the messages that a consumer has given up on, and
// resends them at an operator's request.
//
// A letter is a row with everything needed to send the message again, and an alarm.
// Operators list letters, read one, and redrive one or all of a consumer (Routes). A
// redriven message keeps its id, so an effect that did commit is not repeated
// (platform/store/inbox). The transaction that sends a letter removes it, so of two
// operators who redrive it one gets ErrNotFound. Letters are kept for
// --keep-records.
//
// Letters are the receiving end; events that NATS refuses, before any consumer, are
// platform/watch/messages.
package deadletters
