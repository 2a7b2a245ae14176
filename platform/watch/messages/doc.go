// Package messages shows operators the events of the outbox (platform/store/outbox):
// pending, sent and failed ones, with the attempts that the bus refused and the last
// error, and redrives the failed ones. Messages that arrived, and that their consumer
// gave up on, are dead letters (platform/watch/deadletters); both show payloads by
// [ContentOf] and long errors by [Beginning].
package messages
