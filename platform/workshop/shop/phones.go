package shop

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"stampede/platform/workshop/pgtest"
)

// SMSGateway is an SMS gateway that records the messages it should send.
type SMSGateway struct {
	Server *httptest.Server
	mu     sync.Mutex
	texts  []string
}

// NewSMSGateway starts one that ends with the test.
func NewSMSGateway(t *testing.T) *SMSGateway {
	t.Helper()
	n := &SMSGateway{}
	n.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		n.mu.Lock()
		n.texts = append(n.texts, string(body))
		n.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(n.Server.Close)
	return n
}

// Code returns the code in the last message.
func (n *SMSGateway) Code() (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, text := range slices.Backward(n.texts) {
		var m struct {
			Text string `json:"text"`
		}
		if json.Unmarshal([]byte(text), &m) == nil {
			if code := sixDigits.FindString(m.Text); code != "" {
				return code, nil
			}
		}
	}
	return "", errors.New("no message with a code was sent")
}

var sixDigits = regexp.MustCompile(`\b\d{6}\b`)

// SMSCode returns a code that the sandbox's gateway has for a phone beside those that
// were used.
func SMSCode(t *testing.T, in *Instance, phone string, used ...string) (code string) {
	t.Helper()
	pgtest.Eventually(t, 30*time.Second, func() bool {
		_, doc := in.Call(t, "GET", "/sandbox/sms?format=json&phone="+url.QueryEscape(phone), "", nil)
		raw, _ := json.Marshal(doc) // a decoded document can be encoded
		codes := regexp.MustCompile(`"text":"[^"]*?([0-9]{6})[^"]*"`).FindAllStringSubmatch(string(raw), -1)
		at := slices.IndexFunc(codes, func(found []string) bool { return !slices.Contains(used, found[1]) })
		if at < 0 {
			return false
		}
		code = codes[at][1]
		return true
	}, "the SMS is there")
	return code
}
