// Package message sends messages to shoppers who have closed the page: in WeChat to those who have linked it, else by SMS,
// else by e-mail.
//
// # Owns
//
// In the schema notify: messages, one row for each message; what the shop has decided about them (message_rules,
// message_texts); what became of them by day (message_days); what shoppers want (message_preferences, units_back_asks);
// and how far the walks over reservations and unpaid orders have come (message_walks).
//
// # From an event to a row
//
// Events become rows through durable subscriptions: won, paid, shipped, refunded, dispute, units_back. What is due by the
// clock is walked by the instance that holds the lease, in pages by index, each with its place in one transaction:
// reminder over the reservations of what opens soon, deadline over the unpaid orders. A row's key is the thing that it is
// about, the kind and the user, so that a repetition makes none. A user whom no channel reaches gets no row.
//
// # From a row to the reader
//
// The instance with the lease claims a hundred due rows at a time, sends them side by side at --messages-per-second at most,
// and notes the result of all with one statement. Offers have a loop of their own, which pauses while the others have a
// backlog. Where only e-mail is left each of the two has another loop, under a lease of its own, for which the rate does
// not count: a mail server that hangs delays no SMS. A claim ends after a minute, and two instances that both believe to
// have the lease share the rows (FOR UPDATE SKIP LOCKED).
//
//   - The channels are tried in their order: the official account, the mini program, SMS, e-mail. WeChat is tried where the
//     reader has an openid and the shop a text. What one refuses goes by the next, at once; what all refuse is dead. While a
//     channel is away, messages about orders go by the next too; offers, which are many, only by one that costs nothing.
//   - While no channel takes it the message waits, more and more rarely tried, until it is worth nothing: a warning after the
//     deadline, a reminder a minute before the opening, when the crowd comes. Then it is dead, which an alarm says, and an
//     operator can send it again where it is still true.
//   - A call whose answer got lost may have sent the message. Gateways and the official account know its id and are asked
//     again, and mail programs show an e-mail with the same id once; for Tencent Cloud, Aliyun and the mini program it is
//     dead, and an operator decides about it alone.
//   - A process that is killed between the sending and the note sends its batch again, under the same ids.
//   - Events come in any order. So the orders of a batch are read before it is sent, and no message asks for a payment that
//     was made.
//   - Reminders are spread over the minutes before the opening and end a minute before it.
//
// # Offers
//
// Reminders and units back are about no order. They keep the quiet hours and the budget, and shoppers unsubscribe from
// them, on their page or by a signed link. Messages about orders always go out.
//
// # Personal data
//
// Rows have the user's number and the item, no name and no address; the masked address of a sent one is for operators.
// Erasing an account drops what waits. Phones, openids and e-mail addresses are in no event, log or metric.
//
// # Size
//
// The package has more than 2,000 lines because making, filling and sending share one table and one rule for what a
// message is worth; a kind is added in one place.
package message
