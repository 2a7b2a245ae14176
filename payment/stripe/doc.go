// Package stripe is Stripe as a payment provider: "card", a Checkout page of Stripe's
// that takes cards and the wallets that hold them. The client is Stripe's own library
// (stripe-go) over this program's outward calls (platform/edge/outbound), which have the
// timeouts, the retries, the breaker and the metrics
// (platform/adr/0025-stripe-by-its-own-library.md).
//
// # Names
//
// Stripe names a payment itself: the Checkout session (cs_…) is Handoff.Ref, the payment
// intent (pi_…) is the capture's transaction, the refund (re_…) the refund's. Our numbers
// travel as client_reference_id and in the metadata of session, payment intent and
// refund. A creation is repeated under an idempotency key, the payment number; if its
// answer was lost for good, the session is found among those of its time.
//
// # Signatures
//
// Requests carry the secret key over TLS. A callback carries in Stripe-Signature its time
// and an HMAC-SHA256 over time and body by the endpoint's signing secret, of which two are
// valid while one is rolled. A callback more than five minutes old is refused. Neither
// names the account: the secret does. A callback of a connected account names that one,
// and an object of test mode says so; both are reported as another merchant.
//
// # What a shop has to know
//
//   - A session lives for 30 minutes at least, and never longer than the order. With a
//     payment window of 45 minutes, shoppers may begin to pay by Stripe during the first
//     14 of them; with one of 30 minutes or less Stripe is not offered.
//   - Callbacks are sent where the endpoint in Stripe's dashboard says:
//     {public URL}/api/v1/payments/stripe/notify, for checkout.session.completed,
//     checkout.session.async_payment_succeeded, refund.created, refund.updated,
//     refund.failed and charge.dispute.* (created, updated, closed, funds_withdrawn,
//     funds_reinstated): a dispute is a chargeback (package chargeback). Others are acknowledged and change nothing.
//   - A refund that is made in the dashboard has no number of ours. The statement shows it.
//   - Stripe counts ISK and UGX in hundredths, MGA without them, and takes no third decimal
//     of BHD, JOD, KWD, OMR and TND: a price such as KWD 5.124 cannot be paid by Stripe.
//
// payment/stripe/standin is the company for practice and tests.
package stripe
