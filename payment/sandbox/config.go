package sandbox

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"stampede/platform/base/fault"
)

// Settings say whether the bank is served.
type Settings struct {
	SandboxBank bool `env:"STAMPEDE_SANDBOX_BANK" help:"Serve the sandbox bank and pay through it. Never on a real shop: anyone can pay there without money." practice:""`
}

// merchantName is what the bank's page shows.
const merchantName = "Stampede"

// callbackAttempts is how often a callback is sent at most, about as often as
// real providers do within the first minutes.
const callbackAttempts = 8

// Config is the bank's configuration when it does not misbehave.
type Config struct {
	// Merchant is the shop's number at the bank.
	Merchant string
	// Secret is shared by bank and merchant.
	Secret []byte
	// PublicURL is where shoppers reach the bank, without a trailing slash;
	// the pay URL begins with it.
	PublicURL string
	// CallbackBackoff is the wait after the first failed attempt; it doubles
	// with each, up to callbackBackoffMost. Defaults to 1 s: callbackAttempts then
	// span about two minutes, longer than a restart takes.
	CallbackBackoff time.Duration
	// RefundDelay is how long a refund stays in processing. Defaults to 500 ms,
	// enough for a person to see that it is not instant.
	RefundDelay time.Duration
	// Poll is how often the worker checks for due work when nothing woke it.
	// Defaults to 250 ms.
	Poll time.Duration
	// Parallel is how many callbacks are under way concurrently. Defaults to 16:
	// more than the merchant's connection budget would only queue there.
	Parallel int
}

// DefaultConfig returns the defaults; Merchant, Secret and PublicURL have to
// be set by the caller.
func DefaultConfig() Config {
	return Config{
		CallbackBackoff: time.Second, RefundDelay: 500 * time.Millisecond, Poll: 250 * time.Millisecond, Parallel: 16,
	}
}

// maxURLBytes bounds an address that a request contains.
const maxURLBytes = 2048

// checkURL accepts only absolute http and https addresses with a host: the bank
// sends requests there and puts them into its page.
func checkURL(raw string) error {
	if len(raw) > maxURLBytes {
		return fmt.Errorf("longer than %d bytes", maxURLBytes)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return err
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
		return errors.New("not an absolute http or https address without user and password")
	}
	return nil
}

// Behaviour is how the bank treats one payment.
type Behaviour string

// The behaviours. All but the first are faults that real banks have had.
const (
	Normal      Behaviour = "normal"
	Duplicate   Behaviour = "duplicate"    // the callback is sent twice, at the same moment
	WrongAmount Behaviour = "wrong_amount" // the callback states one unit too much; a query returns the true amount
	Underpaid   Behaviour = "underpaid"    // one unit too little was really taken, and every answer says so
	Late        Behaviour = "late"         // the money moves now, the callback is sent delay_seconds later
	Never       Behaviour = "never"        // the money moves, no callback is sent
	RefundFails Behaviour = "refund_fails" // a refund of this payment fails permanently
	// A refund of this payment succeeds, and delay_seconds later the money comes back to the merchant.
	RefundBounces Behaviour = "refund_bounces"
	// The money moves now, and for delay_seconds the merchant learns nothing of it: no callback is sent, and no call
	// about this payment is answered.
	Silent Behaviour = "silent"
	// The shopper's bank takes the money back delay_seconds after the payment, and that long afterwards the merchant wins
	// it or has lost it. Only companies have chargebacks, the bank's own protocol has none.
	ChargebackWon  Behaviour = "chargeback_won"
	ChargebackLost Behaviour = "chargeback_lost"
)

// misbehaviour is a behaviour as the page names it.
type misbehaviour struct {
	Behaviour
	Name fault.Text
}

// behaviours are all of them, as the page lists them.
var behaviours = []misbehaviour{
	{Normal, fault.Text{"everything as it should be", "一切正常"}},
	{Duplicate, fault.Text{"the shop is told twice", "重复通知商户"}},
	{WrongAmount, fault.Text{"the callback states another amount", "通知金额不符"}},
	{Underpaid, fault.Text{"too little is taken", "实际少扣款"}},
	{Late, fault.Text{"the shop is told so many seconds later", "延迟指定秒数后通知"}},
	{Never, fault.Text{"the shop is never told", "从不通知"}},
	{Silent, fault.Text{"no word and no answer for so many seconds", "指定秒数内不通知也不应答"}},
	{RefundFails, fault.Text{"a refund fails", "退款失败"}},
	{RefundBounces, fault.Text{"a refund comes back after so many seconds", "退款成功后指定秒数被退回"}},
	{ChargebackWon, fault.Text{"a chargeback after so many seconds, which the shop wins", "指定秒数后拒付，商户胜诉"}},
	{ChargebackLost, fault.Text{"a chargeback after so many seconds, which the shop loses", "指定秒数后拒付，商户败诉"}},
}

// maxDelaySeconds bounds a late callback: a day is longer than any order lives.
const maxDelaySeconds = 86_400

// checkBehaviour refuses a misbehaviour that the bank does not know.
func checkBehaviour(how Behaviour, delaySeconds int32) error {
	if how != "" && !slices.ContainsFunc(behaviours, func(f misbehaviour) bool { return f.Behaviour == how }) {
		return invalid("behaviour is not one that the bank knows")
	}
	if delaySeconds < 0 || delaySeconds > maxDelaySeconds {
		return invalid("delay_seconds is between 0 and 86400")
	}
	return nil
}
