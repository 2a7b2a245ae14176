// Package deadletters keeps the messages that a consumer has given up on, and sends
// them again when an operator says so.
//
// A letter is a row with all that is needed to send the message again, and an
// alarm. Operators list letters, look at one, and redrive one or all of a consumer
// (Routes). A redriven message keeps its id, so an effect that did commit is not
// repeated (platform/store/inbox). The letter is removed by the commit that sends
// it, so of two operators who redrive it one finds it gone. Letters are kept for
// --keep-records.
package deadletters
