package httpx

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Addresses are the settings of where a server listens and how clients reach it.
type Addresses struct {
	Listen    string `default:"127.0.0.1:8080" env:"STAMPEDE_LISTEN" help:"Address for shoppers and operators, host:port. A loopback address is bound on IPv4 and IPv6 alike; :8080 opens it to the network."`
	OpsListen string `default:"127.0.0.1:9180" env:"STAMPEDE_OPS_LISTEN" help:"Address for health, metrics and profiles, host:port. Keep it off the public network."`
	PublicURL string `default:"" env:"STAMPEDE_PUBLIC_URL" help:"URL at which shoppers and payment providers reach this server, e.g. https://sale.example.com. Empty: http:// and the listen address."`

	// RushURL names the rush apart from the shop, so that it can have addresses, machines
	// and bandwidth of its own.
	RushURL string `default:"" env:"STAMPEDE_RUSH_URL" help:"URL of a second name of this server, for rushes alone, e.g. https://rush.example.com: rush_url and the shop's pages name it. Empty: the shop's own." rare:""`

	OrderURL string `default:"" env:"STAMPEDE_ORDER_URL" help:"Page to which a payment provider sends the shopper's browser back, e.g. https://www.shop.example/orders; the order's number is in its query (?order=…). Empty: the order's page here." rare:""`

	AllowedOrigins []string `env:"STAMPEDE_ALLOWED_ORIGINS" help:"Other sites whose pages may call this server, over HTTP and WebSocket alike, comma-separated, e.g. https://shop.example.com. Empty: none."`
}

// maxPublicURL keeps the QR code of a login coarse enough for a phone's camera: with the
// login's id appended the picture has 61 modules of 3 pixels. A usual host name gives 37
// of 5.
const maxPublicURL = 200

// Check returns an error for each wrong address.
func (a Addresses) Check() error {
	var wrong []error
	for _, l := range []struct{ flag, addr string }{{"listen", a.Listen}, {"ops-listen", a.OpsListen}} {
		_, port, err := net.SplitHostPort(l.addr)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("--%s must be host:port with a port up to 65535, e.g. 127.0.0.1:8080 or :8080, not %q", l.flag, l.addr))
		}
	}
	if a.Listen == a.OpsListen && !strings.HasSuffix(a.Listen, ":0") {
		wrong = append(wrong, errors.New("--listen and --ops-listen must differ: health and profiles do not belong on the public address"))
	}
	if a.PublicURL != "" {
		u, err := url.Parse(a.PublicURL)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || strings.TrimSuffix(u.Path, "/") != "" {
			wrong = append(wrong, fmt.Errorf("--public-url must be like https://sale.example.com, not %q", a.PublicURL))
		}
		if len(a.PublicURL) > maxPublicURL {
			wrong = append(wrong, fmt.Errorf("--public-url must have at most %d bytes, not %d: phones could not scan a QR code with it",
				maxPublicURL, len(a.PublicURL)))
		}
	}
	if u, err := url.Parse(a.OrderURL); err != nil || a.OrderURL != "" && (u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && !Loopback(u.Hostname())) {
		wrong = append(wrong, fmt.Errorf("--order-url must be like https://www.shop.example/orders, without a query, not %q", a.OrderURL))
	}
	if a.RushURL != "" {
		wrong = append(wrong, checkOrigin("rush-url", a.RushURL))
	}
	for _, origin := range a.AllowedOrigins {
		wrong = append(wrong, checkOrigin("allowed-origins", origin))
	}
	return errors.Join(wrong...)
}

// BaseURL is how clients reach this server: PublicURL, else LocalURL.
func (a Addresses) BaseURL() string {
	if a.PublicURL != "" {
		return strings.TrimSuffix(a.PublicURL, "/")
	}
	return a.LocalURL()
}

// Origins are the sites whose pages may call this server: the allowed ones, and the
// shop's own pages, which are another site to the name of the rush.
func (a Addresses) Origins() []string {
	if a.RushURL == "" {
		return a.AllowedOrigins
	}
	return append(slices.Clone(a.AllowedOrigins), originOf(a.BaseURL()))
}

// LocalURL is how clients on the same machine reach this server: the listen address,
// with a loopback host if it names none.
func (a Addresses) LocalURL() string {
	host, port, _ := net.SplitHostPort(a.Listen)
	if host == "" || host == "0.0.0.0" || host == "::" {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// OnlyHere reports whether other machines can reach this server but get links that
// work only locally: the links for payment providers and browsers begin with
// BaseURL.
func (a Addresses) OnlyHere() bool {
	host, _, _ := net.SplitHostPort(a.Listen) // validated by Check
	u, err := url.Parse(a.BaseURL())
	return err == nil && !Loopback(host) && Loopback(u.Hostname())
}

// Exposed reports whether other machines can reach this server, directly or
// through a proxy.
func (a Addresses) Exposed() bool {
	host, _, _ := net.SplitHostPort(a.Listen) // validated by Check
	u, err := url.Parse(a.BaseURL())
	return !Loopback(host) || err != nil || !Loopback(u.Hostname())
}

// Settings limit an instance's concurrent requests, and name the proxies that may
// state a client's address.
type Settings struct {
	TrustedProxies []string `env:"STAMPEDE_TRUSTED_PROXIES" help:"Networks of the proxies in front of this server, comma-separated, e.g. 10.0.0.0/8: only they may state a client's address. Empty: the connection's peer is the client."`
	ProxyHeader    string   `default:"X-Forwarded-For" enum:"X-Forwarded-For,Forwarded" env:"STAMPEDE_PROXY_HEADER" help:"The header in which these proxies state the client's address: X-Forwarded-For or Forwarded." rare:""`

	MaxConnections     int `default:"0" env:"STAMPEDE_MAX_CONNECTIONS" help:"Connections of shoppers and operators, WebSockets included; above it, those idle for longest are closed. 0: twice the WebSockets and at least 65,536, as far as the limit of open files allows." min:"0" max:"10000000" rare:""`
	ShoppersPerAddress int `default:"500" env:"STAMPEDE_SHOPPERS_PER_ADDRESS" help:"Shoppers that may share one address, as in mobile networks and offices; the bounds per address are this many times a shopper's. Proxies in --trusted-proxies and this machine have none. 0: no bounds per address." min:"0" max:"1000000" rare:""`

	MaxConcurrent int `default:"256" env:"STAMPEDE_MAX_CONCURRENT" help:"Concurrent requests of one route, except the rush; further ones wait up to a second. 0: no limit. stampede rush suggests a value." min:"0" max:"1000000" rare:""`
	MaxInFlight   int `default:"1024" env:"STAMPEDE_MAX_IN_FLIGHT" help:"Concurrent requests of all routes, except the rush: browsing and admin reads get up to half, the rest up to 8 tenths, callbacks and orders all. 0: no limit." min:"0" max:"1000000" rare:""`
}

// Check refuses a proxy that is not a network.
func (s Settings) Check() error {
	_, err := s.Proxies()
	return err
}

// Proxies are the proxies that may state a client's address.
func (s Settings) Proxies() (Proxies, error) {
	p, err := ParseProxies(s.TrustedProxies, s.ProxyHeader)
	if err != nil {
		return p, fmt.Errorf("--trusted-proxies %w", err)
	}
	return p, nil
}

// Bounds limit the concurrent requests.
func (s Settings) Bounds() Bounds {
	return Bounds{InFlight: s.MaxInFlight, OfRoute: s.MaxConcurrent}
}

// Private reports whether requests to an address cannot be read by others: it uses
// TLS, or is on this machine.
func Private(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User != nil {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && Loopback(u.Hostname())
}
