// Package aliyun sends SMS through Aliyun: SendSms of dysmsapi 2017-05-25, signed with
// ACS3-HMAC-SHA256.
//
// Aliyun does not recognize a message that it gets again: OutId only comes back in receipts,
// and the nonce protects against replays of a signature. So there is one attempt, and an
// error after which the message may have been sent wraps outbound.ErrUnclear.
//
// A number on Aliyun's or a carrier's blacklist is accepted; only a receipt tells it.
package aliyun

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"stampede/platform/edge/cloudsign"
	"stampede/platform/edge/outbound"
	"stampede/platform/edge/sms"
)

const publicURL = "https://dysmsapi.aliyuncs.com"

// Sender sends through Aliyun. Safe for concurrent use.
type Sender struct{ *sms.Provider }

// New returns a sender. It makes no call. now dates the signatures.
func New(cfg sms.ProviderConfig, now func() time.Time, log *slog.Logger) (*Sender, error) {
	p, err := sms.NewProvider(cfg, publicURL, now, log)
	return &Sender{p}, err
}

// Send implements sms.Sender.
func (s *Sender) Send(ctx context.Context, m sms.Message) error {
	id := s.Templates.Of(m)
	if id == "" {
		return s.NoTemplate(ctx, m)
	}
	values := make(map[string]string, len(m.Params))
	for _, p := range m.Params {
		values[p.Name] = p.Value
	}
	params, err := json.Marshal(values)
	if err != nil {
		return fmt.Errorf("sms: encode: %w", err)
	}
	phone := strings.TrimPrefix(m.Phone, "+")
	phone = strings.TrimPrefix(phone, "86") // of all countries only China's own prefix is left out
	query := strings.ReplaceAll(url.Values{
		"PhoneNumbers": {phone}, "SignName": {s.Signature}, "TemplateCode": {id}, "TemplateParam": {string(params)}, "OutId": {m.ID},
	}.Encode(), "+", "%20") // RFC 3986, as the signature wants it
	call := cloudsign.Call{Host: s.Host, Action: "SendSms", Version: "2017-05-25", Query: query}
	return s.Deliver(ctx, m, outbound.Request{URL: s.URL + "?" + query, Body: []byte{}, Head: func(h http.Header) {
		cloudsign.Aliyun(h, s.Key, call, s.Now())
	}}, read)
}

// refused are the codes of what will never be sent: to that number, or with those values.
var refused = map[string]bool{
	"isv.MOBILE_NUMBER_ILLEGAL":   true,
	"isv.BLACK_KEY_CONTROL_LIMIT": true,
	"isv.PARAM_LENGTH_LIMIT":      true,
	"isv.PARAM_NOT_SUPPORT_URL":   true,
	"isv.TEMPLATE_PARAMS_ILLEGAL": true,
	"isv.SMS_CONTENT_ILLEGAL":     true,
	"isv.UNSUPPORTED_CONTENT":     true,
}

// read sorts Aliyun's codes. One about the shop (balance, template, signature, key) is
// temporary: the operator repairs it, and the message is still due.
func read(r outbound.Reply) sms.Answer {
	var said struct{ Code string }
	if json.Unmarshal(r.Body, &said) != nil || said.Code == "" {
		return sms.Answer{Verdict: sms.Unclear}
	}
	switch code := said.Code; {
	case code == "OK":
		return sms.Answer{Code: code}
	case refused[code]:
		return sms.Answer{Code: code, Verdict: sms.Refused}
	case strings.HasPrefix(code, "Throttling"):
		return sms.Answer{Code: code, Verdict: sms.Failed}
	case strings.HasPrefix(code, "isp.") && code != "isp.RAM_PERMISSION_DENY", r.Status >= http.StatusInternalServerError:
		return sms.Answer{Code: code, Verdict: sms.Unclear}
	default:
		return sms.Answer{Code: code, Verdict: sms.Later}
	}
}
