// Package alipay is Alipay (open platform, RSA2) as a payment provider: "page" for a
// desktop's browser and "wap" for a phone's.
//
// # What a shop has to know
//
//   - A creation is no call: the shopper's browser takes a signed address to Alipay, and
//     Alipay learns of the payment there. Until then it is missing, cannot be closed,
//     and can be paid until it expires; money for a closed order is late, as always.
//   - A payment that was refunded in full is TRADE_CLOSED, like one that was never
//     paid; only one that was paid has a time of payment.
//   - A refund has no number of Alipay's. It is made by the call that requests it, and
//     repeating the call with the same number changes nothing.
//   - Amounts are yuan with two decimals, times are those of China without a zone.
//
// # Signatures
//
// A request is signed over its parameters, sorted, without sign; a reply over the
// text of its one object; a callback over its parameters without sign and sign_type.
// A callback carries no fresh time: Alipay repeats the same message for a day. A
// replay is a repetition, and changes nothing.
//
// payment/alipay/standin is the company for practice and tests.
//
// Sources: opendocs.alipay.com/open/270 (page), 203 (wap), 028wob (close), 028sm9
// (refund), 270/105902 (callbacks), common/02khjm (signatures).
package alipay
