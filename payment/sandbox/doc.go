// Package sandbox is a bank for trying out Stampede, and the client that makes
// it a payment provider. The bank behaves like a real one: it has its own books
// (Postgres schema sandbox, read by no other package), its own endpoints under
// /sandbox-bank/, a page on which a shopper pays, signed requests, signed
// replies, and signed callbacks that it repeats until they are acknowledged.
// Bank and Client share only the secret and the messages in wire.go; they talk
// over real HTTP even inside one process.
//
// # Signatures
//
// Every request, reply and callback carries the seconds since 1970 and the hex
// HMAC-SHA256 over those digits, a line feed and the raw body. Each direction
// has its own key, derived from the shared secret, so that a message from the
// bank cannot be replayed to it as a request. A request names its operation in
// the body, so that a query cannot be replayed as a close; a reply repeats the
// request's nonce, so that an old reply answers no new request. Messages more
// than five minutes old or ahead are refused.
//
// # State machine
//
//	payment: open → captured | closed        (closed also by its expiry)
//	refund:  processing → succeeded | failed
//
// Each change is one conditional UPDATE on the database's clock: of a capture,
// a close and the expiry exactly one wins. Closing a number that the bank has
// never seen records it as closed, so that a creation still in transit is
// refused. Closing a captured payment answers "captured".
//
// # Dialects
//
// The merchant API is a Dialect in front of the books: the bank's own, or another
// company's for practice. Each dialect has its merchant, and so its own payments.
//
// # Misbehaviour
//
// The body of a payment may request misbehaviour, see Behaviour. That is the purpose of this bank: every promise about money is
// tested against a bank that sends twice, late, wrong, or not at all.
//
// # Lifecycle
//
// New, Routes before serving, Workers while serving. The worker settles refunds
// and delivers callbacks; what is due is in the database, claimed with SKIP
// LOCKED, so several processes share the work and a restart loses nothing. It
// never exits on an error.
package sandbox
