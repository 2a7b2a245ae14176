package cli

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"stampede/platform/base/config"
	"stampede/platform/base/fault"
	"stampede/platform/base/network"
	"stampede/platform/edge/httpx"
	"stampede/platform/watch/alarm"
)

// DangerousSetting is the alarm about settings that work and weaken the shop.
var DangerousSetting = alarm.Define("dangerous-setting", alarm.Warning,
	fault.T("A setting is in force that weakens the shop; the subject names it.",
		"有一项设置削弱了商城的安全，见告警对象。"),
	fault.T("Read the detail, correct the setting and restart the server. The alarm repeats while the setting is in force.",
		"查看详情，修正设置后重启服务。设置生效期间会反复告警。"))

// dangers are the dangerous settings in force. They change only with a restart.
type dangers []alarm.Finding

// dangers finds them. args is this process's command line, which every user of
// the machine can read; more are settings beside Plugins.
func (s Settings) dangers(args []string, more ...any) (found dangers) {
	add := func(flag, detail string) { found = append(found, alarm.Finding{Subject: "--" + flag, Detail: detail}) }
	if s.Addresses.Exposed() {
		for _, flag := range s.practising() {
			add(flag.Name, "Other machines can reach this server, which pays or logs in without proof. Use it for drills only.")
		}
	}
	if public(s.Addresses.OpsListen) {
		add("ops-listen", "Metrics and profiles are on a public address. Listen on loopback or in a private network.")
	}
	if u := s.Addresses.PublicURL; u != "" && !httpx.Private(u) {
		add("public-url", "Shoppers reach this server over http, so that others can read their tokens. Put a proxy with TLS in front, and begin the URL with https://.")
	}
	if s.Addresses.PublicURL == "" && !s.trustsNoProxy() {
		add("public-url", "Shoppers come through a proxy, as --trusted-proxies says, and payment links and callbacks have this instance's own address. Set the URL that shoppers use.")
	}
	if strings.HasPrefix(s.Addresses.PublicURL, "https://") && s.trustsNoProxy() {
		add("trusted-proxies", "Shoppers come through a proxy with TLS, as the public URL is https, and without this setting all of them count as the proxy's one address. Set the proxy's network.")
	}
	for _, flag := range config.Tagged("secret", append(more, s.Plugins...)...) {
		if value, given := valueOf("--"+flag.Name, args); given && !harmless(value) && (flag.Name != "backup-to" || strings.Contains(value, "://")) { // a folder is no secret
			add(flag.Name, "The command line contains this secret, where every user of the machine can read it. Use the variable or the file of --config.")
		}
	}
	return found
}

// trustsNoProxy reports whether no proxy may state a client's address.
func (s Settings) trustsNoProxy() bool {
	return slices.ContainsFunc(config.Tagged("env", s.Plugins...), func(f *kong.Flag) bool { return f.Name == "trusted-proxies" && f.Target.IsZero() })
}

// valueOf returns a flag's value on a command line.
func valueOf(flag string, args []string) (value string, given bool) {
	for i, arg := range args {
		if name, value, ok := strings.Cut(arg, "="); ok && name == flag {
			return value, true
		}
		if arg == flag {
			return strings.Join(args[i+1:min(i+2, len(args))], ""), true
		}
	}
	return "", false
}

// storeSchemes begin the addresses of stores, which are secret only for their password.
var storeSchemes = []string{"postgres", "postgresql", "redis", "rediss", "redis-sentinel", "redis-cluster", "unix", "nats", "tls"}

// harmless reports whether a secret setting is the address of a store, or a list of them,
// without a password. Other addresses may be secrets as a whole.
func harmless(value string) bool {
	scheme, rest, _ := strings.Cut(value, "://")
	token := scheme == "nats" || scheme == "tls" // is a user without a password
	for part := range strings.SplitSeq(rest, "://") {
		// Whatever a URL's parser refuses, such as a slash in a password, is before the last @, too.
		user := part[:max(strings.LastIndex(part, "@"), 0)]
		if strings.Contains(user, ":") || user != "" && token || strings.Contains(part, "password=") {
			return false
		}
	}
	return slices.Contains(storeSchemes, scheme)
}

// public reports whether an address to listen on is one of the public Internet.
func public(listen string) bool {
	host, _, _ := net.SplitHostPort(listen) // validated by Check
	addr, err := netip.ParseAddr(cmp.Or(host, "::"))
	if err != nil || !addr.IsUnspecified() {
		return err == nil && network.Public(addr) // only DNS knows a name
	}
	bound, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(bound, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && network.Public(prefix.Addr())
	})
}

// probe logs each danger once, and keeps its alarm up.
func (d dangers) probe(ctx context.Context, log *slog.Logger) alarm.Probe {
	for _, found := range d {
		log.WarnContext(ctx, "dangerous setting", "setting", found.Subject, "detail", found.Detail)
	}
	return alarm.Probe{Alarm: DangerousSetting, Every: time.Minute, Look: func(context.Context) ([]alarm.Finding, error) { return d, nil }}
}
