package sandbox

import (
	"encoding/base64"
	"log/slog"

	"github.com/go-chi/chi/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/payment/sandbox/internal/sandboxdb"
	"stampede/platform/base/app"
	"stampede/platform/base/clock"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/outbound"
	"stampede/platform/store/pulse"
)

// Deps are the bank's dependencies.
type Deps struct {
	DB      *pgxpool.Pool
	Pulse   *pulse.Pulse // nil: the worker asks itself
	Clock   clock.Clock  // for signatures; state changes use the database's clock
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Bank is the sandbox bank. Safe for concurrent use.
type Bank struct {
	cfg      Config
	db       *pgxpool.Pool
	pulse    *pulse.Pulse
	q        *sandboxdb.Queries
	log      *slog.Logger
	dialects map[string]Dialect // by merchant
	pageKey  []byte
	outward  *outbound.Client
	wake     chan struct{} // capacity 1: one pending wake-up is enough

	captures  prometheus.Counter
	callbacks *prometheus.CounterVec
}

// ownMerchant is the shop's number at the bank that Open opens.
const ownMerchant = "stampede"

// Open opens the bank for the shop in this process, as its only merchant, and
// returns the bank with the shop's client. Shoppers reach both at publicURL, this
// process at localURL.
func Open(secret []byte, publicURL, localURL string, deps Deps) (*Bank, *Client) {
	cfg := DefaultConfig()
	cfg.Merchant, cfg.Secret, cfg.PublicURL = ownMerchant, secret, publicURL
	client := DefaultClientConfig()
	client.Merchant, client.Secret, client.BankURL, client.Metrics = ownMerchant, secret, localURL, deps.Metrics
	return New(cfg, deps), NewClient(client, deps.Clock)
}

// New opens the bank. Its books are in deps.DB, schema sandbox.
func New(cfg Config, deps Deps) *Bank {
	auto := promauto.With(deps.Metrics)
	b := &Bank{
		cfg: cfg, db: deps.DB, pulse: deps.Pulse, q: sandboxdb.New(deps.DB), log: deps.Log, wake: make(chan struct{}, 1), pageKey: derive(cfg.Secret, "pay page"),
		outward: outbound.New(outbound.Config{
			Peer: "merchant", Direct: true, Timeout: callbackTimeout, Attempts: 1, // the database keeps what has to be sent again
			Conns: cfg.Parallel, MaxConns: cfg.Parallel, MaxBytes: maxAckBytes, Metrics: deps.Metrics,
		}),
		captures: auto.NewCounter(prometheus.CounterOpts{
			Name: "stampede_payment_sandbox_captures_total", Help: "Payments that the sandbox bank took money for.",
		}),
		callbacks: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_payment_sandbox_callbacks_total", Help: "Attempts to deliver a callback, by result: acknowledged, retried, given_up.",
		}, []string{"result"}),
	}
	own := native{Bank: b, number: cfg.Merchant}
	own.merchant, own.bank = signers(cfg.Secret, deps.Clock.Now)
	b.dialects = map[string]Dialect{cfg.Merchant: own}
	return b
}

// Speak adds a merchant whom the bank serves in another protocol. Call it before
// Routes.
func (b *Bank) Speak(d Dialect) { b.dialects[d.Account().Merchant] = d }

// Routes mounts the bank's endpoints, all under Prefix.
func (b *Bank) Routes(mux chi.Router) {
	for merchant, d := range b.dialects {
		d.Routes(mux, Desk{b, merchant})
	}
	mux.Get(Prefix+"/pay/{ref}", b.showPage)
	mux.Post(Prefix+"/pay/{ref}", b.pay)
}

// Workers returns the loop that settles refunds and delivers callbacks.
func (b *Bank) Workers() []app.Worker {
	return []app.Worker{{Name: "sandbox-bank", Run: b.run}}
}

// pageTokenBytes is half a SHA-256: too long to guess, short enough for a link.
const pageTokenBytes = 16

// pageToken is the secret half of a pay URL: its holder may view the payment
// and pay it, so a number alone opens nothing.
func (b *Bank) pageToken(ref ids.ID) string {
	return base64.RawURLEncoding.EncodeToString(auth.MAC(b.pageKey, ref[:])[:pageTokenBytes])
}

// payURL is the page on which a shopper pays.
func (b *Bank) payURL(ref ids.ID) string {
	return b.cfg.PublicURL + Prefix + "/pay/" + ref.String() + "?t=" + b.pageToken(ref)
}
