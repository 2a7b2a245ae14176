// Package config holds every setting of the server: one struct whose fields are
// at once a flag, a STAMPEDE_… variable and a line of `stampede config`.
package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"stampede/platform/alarm"
	"stampede/platform/telemetry/tracing"
)

// Server is what `run` and `serve` share. The help text of each field names its
// unit; kong prints it with the default and the variable.
type Server struct {
	Listen    string `default:"127.0.0.1:8080" env:"STAMPEDE_LISTEN" help:"Address for shoppers and operators, host:port. A loopback address is bound on IPv4 and IPv6 alike; :8080 opens it to the network." group:"addresses"`
	OpsListen string `default:"127.0.0.1:9180" env:"STAMPEDE_OPS_LISTEN" help:"Address for health, metrics and profiles, host:port. Keep it off the public network." group:"addresses"`
	PublicURL string `default:"" env:"STAMPEDE_PUBLIC_URL" help:"How shoppers and payment providers reach this server, e.g. https://sale.example.com. Empty: http:// and the listen address." group:"addresses"`

	SigningKey string `default:"" env:"STAMPEDE_SIGNING_KEY" help:"Secret that signs rush paths and access tokens, at least 32 bytes; the same on every instance. serve refuses to start without it; run makes one and keeps it beside its data." secret:"" group:"required"`
	Keys       `embed:"" group:"rotation"`

	LogLevel  string `default:"info" enum:"debug,info,warn,error" env:"STAMPEDE_LOG_LEVEL" help:"Least severity that is logged: debug, info, warn or error." group:"logs"`
	LogFormat string `default:"text" enum:"text,json" env:"STAMPEDE_LOG_FORMAT" help:"text for people, json for machines." group:"logs"`

	TraceEndpoint string  `default:"" env:"STAMPEDE_TRACE_ENDPOINT" help:"OpenTelemetry collector (OTLP over HTTP) that traces are sent to, e.g. http://127.0.0.1:4318. Empty: no traces." group:"logs"`
	TraceSample   float64 `default:"0.01" env:"STAMPEDE_TRACE_SAMPLE" help:"Share of the requests and rushes that are traced, 0 to 1." group:"logs"`

	TimeZone        string        `default:"Asia/Shanghai" env:"STAMPEDE_TIME_ZONE" help:"The shop's IANA time zone, for business dates such as midnight." group:"sale"`
	PreheatLead     time.Duration `default:"30m" env:"STAMPEDE_PREHEAT_LEAD" help:"How long before the opening an item's stock is loaded into Redis, as a duration between 1m and 24h." group:"sale"`
	PreheatMidnight bool          `env:"STAMPEDE_PREHEAT_MIDNIGHT" help:"Load at 00:00 of the day of the opening, in the shop's time zone, instead of preheat-lead ahead." group:"sale"`

	LaneCapacity    int           `default:"4096" env:"STAMPEDE_LANE_CAPACITY" help:"Attempts that may wait in one item's lane, 64 to 1048576; beyond it the answer is too-hot." group:"sale"`
	WriterLagMax    int64         `default:"20000" env:"STAMPEDE_WRITER_LAG_MAX" help:"Grants of one item that may wait for their order, 1000 to 10000000; beyond it the answer is too-hot." group:"sale"`
	PublishDeadline time.Duration `default:"5s" env:"STAMPEDE_PUBLISH_DEADLINE" help:"How long a publish with an unclear outcome is repeated before the shopper is told unknown, as a duration between 100ms and 1m." group:"sale"`
	OrderCacheTTL   time.Duration `default:"24h" env:"STAMPEDE_ORDER_CACHE_TTL" help:"How long an order stays in the Redis cache, as a duration between 1m and 720h." group:"sale"`

	MaxSockets     int `default:"30000" env:"STAMPEDE_MAX_SOCKETS" help:"WebSocket connections that one instance holds, 1 to 10000000, about 17 KiB each." group:"sockets"`
	Sockets        `embed:"" group:"sockets"`
	OriginPatterns []string `env:"STAMPEDE_ORIGINS" help:"Other hosts whose pages may open a WebSocket here, comma-separated; * matches within a label." group:"sockets"`

	ConnsSeckill   int32 `default:"6" env:"STAMPEDE_CONNS_SECKILL" help:"Postgres connections for activities and browsing." group:"conns"`
	ConnsInventory int32 `default:"4" env:"STAMPEDE_CONNS_INVENTORY" help:"Postgres connections for Load and stock changes." group:"conns"`
	ConnsOrder     int32 `default:"10" env:"STAMPEDE_CONNS_ORDER" help:"Postgres connections for the order writer, expiry and queries." group:"conns"`
	ConnsPayment   int32 `default:"8" env:"STAMPEDE_CONNS_PAYMENT" help:"Postgres connections for payments and callbacks, which must answer however busy the rush is." group:"conns"`
	ConnsPlatform  int32 `default:"6" env:"STAMPEDE_CONNS_PLATFORM" help:"Postgres connections for the outbox relay, leases and checks." group:"conns"`

	GrantsMaxMiB int64 `name:"grants-max-mib" default:"512" env:"STAMPEDE_GRANTS_MAX_MIB" help:"Most MiB of grants that wait for the order writer, 1 to 1048576; keep it well below the free disk." group:"disk"`
	EventsMaxMiB int64 `name:"events-max-mib" default:"1024" env:"STAMPEDE_EVENTS_MAX_MIB" help:"Most MiB of events kept for consumers, 1 to 1048576; when full, events wait in the outbox." group:"disk"`

	AlarmWebhookURL    string        `name:"alarm-webhook-url" default:"" env:"STAMPEDE_ALARM_WEBHOOK_URL" help:"Address that is told of alarms by a signed POST, https:// (http:// on this machine only). Empty: nobody." secret:"" group:"alarms"`
	AlarmWebhookSecret string        `default:"" env:"STAMPEDE_ALARM_WEBHOOK_SECRET" help:"Secret that signs these messages, at least 32 bytes; the receiver verifies with it." secret:"" group:"alarms"`
	KeepRecords        time.Duration `default:"2160h" env:"STAMPEDE_KEEP_RECORDS" help:"How long dead letters, alarms that are not seen any more, and reservations after the end of their session are kept, as a duration; 2160h are 90 days." group:"disk"`
	SettleAfter        time.Duration `default:"15m" env:"STAMPEDE_SETTLE_AFTER" help:"How long after its sale an item's keys stay in Redis at least, as a duration between 1m and 720h." group:"sale"`

	Accounts   `embed:"" group:"accounts"`
	Limits     `embed:"" group:"limits"`
	HumanCheck `embed:"" group:"humancheck"`
	Risk       `embed:"" group:"risk"`

	SandboxBank  bool          `env:"STAMPEDE_SANDBOX_BANK" help:"Serve the sandbox bank and pay through it. Never on a real shop: everybody can pay there without money." group:"practice"`
	StopTimeout  time.Duration `default:"10s" env:"STAMPEDE_STOP_TIMEOUT" help:"Hard limit for an orderly stop, as a duration between 1s and 10m." group:"stop"`
	DrainTimeout time.Duration `default:"4s" env:"STAMPEDE_DRAIN_TIMEOUT" help:"How long requests under way may take during a stop, as a duration shorter than stop-timeout." group:"stop"`
}

// leastKeep is longer than anything on the bus, so that a record is not gone
// before what it is about.
const leastKeep = 7 * 24 * time.Hour

// Validate checks what can be checked before anything is started and returns a
// sentence for each setting that is wrong, joined, one a line.
func (s Server) Validate() error {
	return errors.Join(s.validateAddresses(), s.validateZone(), s.validateBounds(), s.Keys.validate(), s.Sockets.validate(), s.Accounts.validate(),
		s.Limits.validate(), s.Risk.validate(), s.validateHuman(), s.validateTraces(),
		(alarm.Webhook{URL: s.AlarmWebhookURL, Secret: s.AlarmWebhookSecret}).Validate(), s.validateRecords())
}

// validateAddresses looks at where the server listens and how others reach it.
func (s Server) validateAddresses() error {
	var wrong []error
	for _, a := range []struct{ flag, addr string }{{"listen", s.Listen}, {"ops-listen", s.OpsListen}} {
		_, port, err := net.SplitHostPort(a.addr)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("--%s must be host:port with a port up to 65535, e.g. 127.0.0.1:8080 or :8080, not %q", a.flag, a.addr))
		}
	}
	if s.Listen == s.OpsListen && !strings.HasSuffix(s.Listen, ":0") {
		wrong = append(wrong, errors.New("--listen and --ops-listen must differ: health and profiles do not belong on the public address"))
	}
	if s.PublicURL != "" {
		u, err := url.Parse(s.PublicURL)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || strings.TrimSuffix(u.Path, "/") != "" {
			wrong = append(wrong, fmt.Errorf("--public-url must be like https://sale.example.com, not %q", s.PublicURL))
		}
	}
	return errors.Join(wrong...)
}

func (s Server) validateZone() error {
	// Go takes no name for UTC and "Local" for whatever the machine is set to: two instances would differ.
	if _, err := time.LoadLocation(s.TimeZone); err != nil || s.TimeZone == "" || s.TimeZone == "Local" {
		return fmt.Errorf("--time-zone must be an IANA name such as Asia/Shanghai, not %q", s.TimeZone)
	}
	return nil
}

func (s Server) validateTraces() error {
	var wrong []error
	if s.TraceEndpoint != "" {
		if _, err := tracing.ParseEndpoint(s.TraceEndpoint); err != nil {
			wrong = append(wrong, fmt.Errorf("--trace-endpoint %w", err))
		}
	}
	if !(s.TraceSample >= 0 && s.TraceSample <= 1) { // so written for NaN, too
		wrong = append(wrong, fmt.Errorf("--trace-sample must be a share between 0 and 1, not %g", s.TraceSample))
	}
	return errors.Join(wrong...)
}

func (s Server) validateRecords() error {
	if s.KeepRecords < leastKeep {
		return fmt.Errorf("--keep-records must be at least %s: younger dead letters may still be needed, not %s", leastKeep, s.KeepRecords)
	}
	return nil
}

// BaseURL is how others reach this server: PublicURL, else LocalURL.
func (s Server) BaseURL() string {
	if s.PublicURL != "" {
		return strings.TrimSuffix(s.PublicURL, "/")
	}
	return s.LocalURL()
}

// LocalURL is how this server is reached from its own machine: the listen
// address, with a loopback host where it names none.
func (s Server) LocalURL() string {
	host, port, _ := net.SplitHostPort(s.Listen)
	if host == "" || host == "0.0.0.0" || host == "::" {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// OnlyHere reports whether others can reach this server but are sent to an
// address that is each machine's own: the links that payment providers and
// browsers get begin with BaseURL.
func (s Server) OnlyHere() bool {
	host, _, _ := net.SplitHostPort(s.Listen) // validated
	u, err := url.Parse(s.BaseURL())
	return err == nil && !loopback(host) && loopback(u.Hostname())
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// Defaults returns the settings of a server that was given no flags: the
// defaults and what STAMPEDE_… variables say.
func Defaults() (Server, error) {
	var s struct {
		Server `embed:""`
	}
	parser, err := kong.New(&s)
	if err == nil {
		_, err = parser.Parse(nil)
	}
	if err != nil {
		return Server{}, fmt.Errorf("config: read defaults: %w", err)
	}
	return s.Server, nil
}
