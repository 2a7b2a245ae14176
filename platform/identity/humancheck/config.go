package humancheck

import (
	"cmp"
	"errors"
	"net/url"
	"regexp"
	"strings"
	"time"

	"stampede/platform/edge/cloudsign"
	"stampede/platform/edge/httpx"
)

// Settings are the operator's settings for human checks. Each activity's plan sets
// its kind; AuthHumanCheck sets it for logins.
type Settings struct {
	AuthHumanCheck      Kind   `default:"pow" enum:"none,pow,slide,verifier" env:"STAMPEDE_AUTH_HUMAN_CHECK" help:"Human check for SMS codes, and for logins and registrations after failures or many accounts from one address or device: none, pow, slide or verifier. A proof of work gets harder with their record."`
	HumanCheckStrength  string `default:"normal" enum:"low,normal,high" env:"STAMPEDE_HUMAN_CHECK_STRENGTH" help:"How hard checks are. A proof of work takes a desktop browser 0.05 s (low), 0.2 s (normal) or 0.8 s (high), a phone five times as long; a quarter of that for a first SMS code, and up to four times as much where many accounts come from one address; one in 11, 17 or 22 blind guesses at a slide captcha succeeds, and four of five attempts of a program that was written for it; set a verifier where something is scarce." rare:""`
	ChallengesPerMinute int    `default:"20" env:"STAMPEDE_CHALLENGES_PER_MINUTE" help:"Challenges that one user, or one address before a login, gets per minute; 0: no limit." min:"0" max:"6000" rare:""`

	VerifierKind         VerifierKind `default:"siteverify" enum:"siteverify,geetest,tencent,aliyun" env:"STAMPEDE_VERIFIER_KIND" help:"The API of the verifier: siteverify (Cloudflare Turnstile and services like it), geetest (GeeTest v4), tencent (Tencent Cloud Captcha) or aliyun (Aliyun Captcha 2.0)." rare:""`
	VerifierURL          string       `default:"" env:"STAMPEDE_VERIFIER_URL" help:"siteverify: its URL, e.g. https://challenges.cloudflare.com/turnstile/v0/siteverify; empty: no verifier. The others have one; set it for another region, e.g. https://captcha.ap-southeast-1.aliyuncs.com (http:// on this machine only)."`
	VerifierSiteKey      string       `default:"" env:"STAMPEDE_VERIFIER_SITE_KEY" help:"The shop's public key at the verifier: GeeTest's captcha_id, Tencent Cloud's CaptchaAppId, Aliyun's SceneId."`
	VerifierSecret       string       `default:"" env:"STAMPEDE_VERIFIER_SECRET" help:"The shop's secret at the verifier: GeeTest's captcha_key, Tencent Cloud's AppSecretKey. Aliyun has none." secret:""`
	VerifierAccessKey    string       `default:"" env:"STAMPEDE_VERIFIER_ACCESS_KEY" help:"tencent and aliyun: the id of the access key that calls the API." rare:""`
	VerifierAccessSecret string       `default:"" env:"STAMPEDE_VERIFIER_ACCESS_SECRET" help:"tencent and aliyun: the secret of --verifier-access-key." secret:"" rare:""`
	VerifierPrefix       string       `default:"" env:"STAMPEDE_VERIFIER_PREFIX" help:"aliyun: the identity prefix (身份标) that the console shows, for the widget." rare:""`

	VerifierHosts   []string      `env:"STAMPEDE_VERIFIER_HOSTS" help:"siteverify: host names of the pages that tokens may come from, comma-separated. Empty: the host of --public-url. The others are bound to domains in their consoles." rare:""`
	VerifierTimeout time.Duration `default:"2s" env:"STAMPEDE_VERIFIER_TIMEOUT" help:"How long the verifier may take to judge a token." min:"100ms" max:"30s" rare:""`
	VerifierDown    DownRule      `default:"refuse" enum:"refuse,pow" env:"STAMPEDE_VERIFIER_DOWN" help:"What happens while the verifier is down: refuse (every check fails with 503) or pow (a proof of work replaces it)." rare:""`
}

// VerifierKind is the API of a verifier.
type VerifierKind string

// The kinds of verifiers.
const (
	Siteverify VerifierKind = "siteverify"
	GeeTest    VerifierKind = "geetest"
	Tencent    VerifierKind = "tencent"
	Aliyun     VerifierKind = "aliyun"
)

// bound reports whether a token comes with the ticket of its challenge, because the
// verifier returns nothing of the shop's.
func (k VerifierKind) bound() bool { return k == GeeTest || k == Tencent || k == Aliyun }

// publicURLs are the verifiers' own addresses.
var publicURLs = map[VerifierKind]string{
	GeeTest: "https://gcaptcha4.geetest.com/validate",
	Tencent: "https://captcha.tencentcloudapi.com/",
	Aliyun:  "https://captcha.cn-shanghai.aliyuncs.com/",
}

// Check returns an error that names the wrong setting.
func (s Settings) Check() error {
	if !s.hasVerifier() {
		if s.AuthHumanCheck == Verifier {
			return errors.New("--auth-human-check is verifier, but no verifier is set: set --verifier-url, --verifier-site-key and --verifier-secret, or another --verifier-kind and what it needs")
		}
		return nil
	}
	if err := s.checkParts(); err != nil {
		return err
	}
	u, err := url.Parse(s.verifierURL())
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
		return errors.New("--verifier-url must be like https://challenges.cloudflare.com/turnstile/v0/siteverify")
	case u.Scheme == "http" && !httpx.Loopback(u.Hostname()), u.Scheme != "http" && u.Scheme != "https":
		return errors.New("--verifier-url must begin with https:// because the secret is sent there; http:// is allowed on this machine only")
	}
	return nil
}

// number is an app id of Tencent Cloud.
var number = regexp.MustCompile(`^[1-9][0-9]{0,14}$`)

// checkParts checks that the settings that the kind needs are given, and no others.
func (s Settings) checkParts() error {
	key := s.VerifierAccessKey != "" && s.VerifierAccessSecret != ""
	switch {
	case s.VerifierKind == GeeTest && (s.VerifierSiteKey == "" || s.VerifierSecret == ""):
		return errors.New("--verifier-kind=geetest needs --verifier-site-key (captcha_id) and --verifier-secret (captcha_key): copy both from GeeTest's console")
	case s.VerifierKind == Tencent && (s.VerifierSecret == "" || !key || !number.MatchString(s.VerifierSiteKey)):
		return errors.New("--verifier-kind=tencent needs --verifier-site-key (CaptchaAppId, a number), --verifier-secret (AppSecretKey), --verifier-access-key and --verifier-access-secret (SecretId and SecretKey of an account that may call DescribeCaptchaResult): copy them from Tencent Cloud's console")
	case s.VerifierKind == Aliyun && (s.VerifierSiteKey == "" || s.VerifierPrefix == "" || !key):
		return errors.New("--verifier-kind=aliyun needs --verifier-site-key (SceneId), --verifier-prefix, --verifier-access-key and --verifier-access-secret (of a RAM user with AliyunYundunAFSFullAccess): copy them from Aliyun's console")
	case !s.VerifierKind.bound() && (s.VerifierURL == "" || s.VerifierSiteKey == "" || s.VerifierSecret == ""):
		return errors.New("--verifier-url, --verifier-site-key and --verifier-secret belong together: give all of them or none")
	case s.VerifierKind == Aliyun && s.VerifierSecret != "":
		return errors.New("--verifier-secret is not Aliyun's: give the secret of the access key as --verifier-access-secret")
	case s.VerifierKind != Tencent && s.VerifierKind != Aliyun && (s.VerifierAccessKey != "" || s.VerifierAccessSecret != ""):
		return errors.New("--verifier-access-key and --verifier-access-secret are for --verifier-kind tencent and aliyun: set the kind, or leave them out")
	case s.VerifierKind != Aliyun && s.VerifierPrefix != "":
		return errors.New("--verifier-prefix is for --verifier-kind aliyun: set the kind, or leave it out")
	}
	return nil
}

// hasVerifier reports whether any of the verifier's settings is given.
func (s Settings) hasVerifier() bool {
	return s.VerifierKind.bound() || s.VerifierURL+s.VerifierSiteKey+s.VerifierSecret+s.VerifierAccessKey+s.VerifierAccessSecret+s.VerifierPrefix != ""
}

// verifierURL is where the verifier is asked.
func (s Settings) verifierURL() string { return cmp.Or(s.VerifierURL, publicURLs[s.VerifierKind]) }

// apiRoot is the address of an API whose path is always "/", and its host.
func (s Settings) apiRoot() (at, host string) {
	u, err := url.Parse(s.verifierURL())
	if err != nil { // Check has reported it
		return "", ""
	}
	return u.Scheme + "://" + u.Host + "/", u.Host
}

func (s Settings) key() cloudsign.Key {
	return cloudsign.Key{ID: s.VerifierAccessKey, Secret: s.VerifierAccessSecret}
}

// DownRule says what happens while the verifier is down.
type DownRule string

// The rules. None of them lets everyone through.
const (
	Refuse  DownRule = "refuse" // refuses every check: 503
	StandIn DownRule = "pow"    // accepts a proof of work instead
)

const (
	// challengeLifetime is how long a challenge may be solved: enough for an
	// unlucky, slow phone.
	challengeLifetime = 2 * time.Minute
	// leastTolerance is what a careful finger manages on a phone, in pixels.
	leastTolerance = 2
	// picturesAhead is the stock of pictures, about 20 KiB each: one second of
	// drawing.
	picturesAhead = 64
)

// Config is the configuration of the checks. NewConfig derives it from settings.
type Config struct {
	Settings
	// Difficulty is how many zero bits a proof of work needs, MinDifficulty to
	// MaxDifficulty; a Subject's level changes it. 2^18 hashes on average take up to a
	// second on a phone, and minutes of a whole core for a thousand tickets.
	Difficulty int
	// Tolerance is how far off a slide's tile may be, in pixels of a picture 300
	// pixels wide, for a subject without recent failures.
	Tolerance int
	// Pictures is picturesAhead, and BreakerDelay breakerDelay, except in tests.
	Pictures     int
	BreakerDelay time.Duration
	// Hosts are the host names that a verifier's token may come from, in lower case
	// and without a port: those of the shop's pages.
	Hosts []string
}

// NewConfig derives the configuration from settings and the shop's public URL, which
// may be empty.
func NewConfig(set Settings, publicURL string) Config {
	c := Config{Settings: set, Difficulty: 18, Tolerance: 4, Pictures: picturesAhead, BreakerDelay: breakerDelay}
	switch set.HumanCheckStrength {
	case "low":
		c.Difficulty, c.Tolerance = 16, 6
	case "high":
		c.Difficulty, c.Tolerance = 20, 3
	}
	for _, host := range set.VerifierHosts {
		c.Hosts = append(c.Hosts, strings.ToLower(strings.TrimSpace(host)))
	}
	if u, err := url.Parse(publicURL); len(c.Hosts) == 0 && err == nil && u.Hostname() != "" {
		c.Hosts = append(c.Hosts, strings.ToLower(u.Hostname()))
	}
	return c
}

// CheckPages refuses, in addition to Check, a verifier that accepts tokens from any
// page. Those of other kinds than siteverify do not say where a token is from.
func (s Settings) CheckPages(publicURL string) error {
	if s.hasVerifier() && !s.VerifierKind.bound() && s.Check() == nil && len(NewConfig(s, publicURL).Hosts) == 0 { // else Check has reported the mistake
		return errors.New("--verifier-hosts or --public-url must be set: otherwise the verifier would accept tokens from any page")
	}
	return nil
}
