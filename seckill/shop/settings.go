package shop

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"stampede/platform/base/plaintext"
)

// Settings are the shop's own face.
type Settings struct {
	ShopName       string `default:"Stampede" env:"STAMPEDE_SHOP_NAME" help:"The shop's name, 1 to 40 characters: on its pages and in the back office, in SMS (see --sms-signature) and authenticator apps."`
	ShopLogo       string `default:"" env:"STAMPEDE_SHOP_LOGO" placeholder:"FILE" help:"The shop's logo, beside its name and in the browser's tab: a file (.svg, .png, .webp or .jpg, up to 32 KiB), or a URL beginning with https://."`
	ShopAccent     string `default:"#cf2a20" env:"STAMPEDE_SHOP_ACCENT" help:"The colour of the pages' buttons, e.g. #0a5fd0; white text on it must be readable (contrast 4.5 or more)."`
	ShopTermsURL   string `default:"" env:"STAMPEDE_SHOP_TERMS_URL" help:"Where the shop's terms are, linked from every page and the login."`
	ShopPrivacyURL string `default:"" env:"STAMPEDE_SHOP_PRIVACY_URL" help:"Where the shop's privacy policy is, linked from every page and the login."`
	ShopContact    string `default:"" env:"STAMPEDE_SHOP_CONTACT" help:"How shoppers reach the shop, on the page of each order: a phone, a URL beginning with https://, or up to 120 characters of text."`
	// Demo adds the live page, /demo, and lets shoppers in without a login.
	Demo bool `kong:"-"`
}

const (
	// longestName fits the header of a phone.
	longestName = 40
	// longestContact is a line with a phone and the hours at which it is answered.
	longestContact = 120
	// largestLogo keeps the logo from weighing more than the page.
	largestLogo = 32 << 10
	// leastContrast is what WCAG 2 asks for text (1.4.3, AA).
	leastContrast = 4.5
)

// logoKinds are the kinds of pictures that every browser shows.
var logoKinds = []string{".svg", ".png", ".webp", ".jpg", ".jpeg"}

// Check returns an error for each wrong setting.
func (s Settings) Check() error {
	var wrong []error
	if n := utf8.RuneCountInString(s.ShopName); n < 1 || n > longestName || strings.ContainsFunc(s.ShopName, plaintext.Unruly) || strings.TrimSpace(s.ShopName) != s.ShopName {
		wrong = append(wrong, fmt.Errorf("--shop-name must have 1 to %d characters that can be seen, not %q", longestName, s.ShopName))
	}
	if contrast, err := contrastWithWhite(s.ShopAccent); err != nil {
		wrong = append(wrong, err)
	} else if contrast < leastContrast {
		wrong = append(wrong, fmt.Errorf("--shop-accent=%s is too light for white text: their contrast is %.1f and must be at least %.1f; choose a darker colour", s.ShopAccent, math.Floor(contrast*10)/10, leastContrast))
	}
	for _, link := range []struct{ flag, address string }{{"terms", s.ShopTermsURL}, {"privacy", s.ShopPrivacyURL}} {
		if u, err := url.Parse(link.address); link.address != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http") {
			wrong = append(wrong, fmt.Errorf("--shop-%s-url must be like https://www.example.com/%s, not %q", link.flag, link.flag, link.address))
		}
	}
	if utf8.RuneCountInString(s.ShopContact) > longestContact || strings.ContainsFunc(s.ShopContact, plaintext.Unruly) {
		wrong = append(wrong, fmt.Errorf("--shop-contact must have at most %d characters on one line, not %q", longestContact, s.ShopContact))
	}
	_, _, err := s.logo()
	return errors.Join(append(wrong, err)...)
}

// logo is the logo's file with the name by which it is served; none if it is elsewhere.
func (s Settings) logo() (name, body string, err error) {
	if s.ShopLogo == "" || s.logoElsewhere() {
		return "", "", nil
	}
	kind := strings.ToLower(path.Ext(filepath.ToSlash(s.ShopLogo)))
	if !slices.Contains(logoKinds, kind) {
		return "", "", fmt.Errorf("--shop-logo must be a file that ends with %s, or a URL beginning with https://, not %q", strings.Join(logoKinds, ", "), s.ShopLogo)
	}
	if about, err := os.Stat(s.ShopLogo); err != nil || about.Size() > largestLogo || about.Size() == 0 {
		return "", "", fmt.Errorf("--shop-logo=%s must be a file of 1 byte to %d KiB that the server can read", s.ShopLogo, largestLogo>>10)
	}
	raw, err := os.ReadFile(s.ShopLogo)
	if err != nil {
		return "", "", fmt.Errorf("--shop-logo: %w", err)
	}
	return "logo" + kind, string(raw), nil
}

func (s Settings) logoElsewhere() bool { return strings.HasPrefix(s.ShopLogo, "https://") }

// colours are the style sheet's variables for an accent other than its own: the colour
// itself, and a darker one to which a band shades off.
func (s Settings) colours() string {
	rgb, err := channels(s.ShopAccent)
	if err != nil || s.ShopAccent == usualAccent {
		return ""
	}
	return fmt.Sprintf(":root{--hot:#%02x%02x%02x;--deep:#%02x%02x%02x}", rgb[0], rgb[1], rgb[2], rgb[0]*3/4, rgb[1]*3/4, rgb[2]*3/4)
}

// usualAccent is the style sheet's.
const usualAccent = "#cf2a20"

// channels are the red, green and blue of a colour, 0 to 255.
func channels(colour string) (rgb [3]int, err error) {
	digits, hash := strings.CutPrefix(colour, "#")
	n, err := strconv.ParseUint(digits, 16, 24)
	if !hash || len(digits) != 6 || err != nil {
		return rgb, fmt.Errorf("--shop-accent must be a colour like #cf2a20, not %q", colour)
	}
	return [3]int{int(n >> 16), int(n >> 8 & 0xff), int(n & 0xff)}, nil
}

// contrastWithWhite is a colour's contrast ratio with white, 1 to 21 (WCAG 2).
func contrastWithWhite(colour string) (float64, error) {
	rgb, err := channels(colour)
	if err != nil {
		return 0, err
	}
	luminance := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		c := float64(rgb[i]) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		luminance += weight * c
	}
	return 1.05 / (luminance + 0.05), nil
}
