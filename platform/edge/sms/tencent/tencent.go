// Package tencent sends SMS through Tencent Cloud: SendSms of 2021-01-11, signed with
// TC3-HMAC-SHA256.
//
// Tencent Cloud does not recognize a message that it gets again: SessionContext only comes
// back in receipts. So there is one attempt, and an error after which the message may have
// been sent wraps outbound.ErrUnclear.
package tencent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"stampede/platform/edge/cloudsign"
	"stampede/platform/edge/outbound"
	"stampede/platform/edge/sms"
)

const (
	publicURL = "https://sms.tencentcloudapi.com"
	// region is where the call is worked on; SMS go everywhere from each.
	region      = "ap-guangzhou"
	contentType = "application/json; charset=utf-8"
)

// Sender sends through Tencent Cloud. Safe for concurrent use.
type Sender struct{ *sms.Provider }

// New returns a sender. It makes no call. now dates the signatures.
func New(cfg sms.ProviderConfig, now func() time.Time, log *slog.Logger) (*Sender, error) {
	p, err := sms.NewProvider(cfg, publicURL, now, log)
	return &Sender{p}, err
}

type request struct {
	PhoneNumberSet   []string
	SmsSdkAppID      string `json:"SmsSdkAppId"`
	SignName         string
	TemplateID       string `json:"TemplateId"`
	TemplateParamSet []string
	SessionContext   string
}

// Send implements sms.Sender.
func (s *Sender) Send(ctx context.Context, m sms.Message) error {
	id := s.Templates.Of(m)
	if id == "" {
		return s.NoTemplate(ctx, m)
	}
	values := make([]string, len(m.Params))
	for i, p := range m.Params {
		values[i] = p.Value
	}
	body, err := json.Marshal(request{
		PhoneNumberSet: []string{m.Phone}, SmsSdkAppID: s.AppID, SignName: s.Signature,
		TemplateID: id, TemplateParamSet: values, SessionContext: m.ID,
	})
	if err != nil {
		return fmt.Errorf("sms: encode: %w", err)
	}
	call := cloudsign.Call{
		Host: s.Host, Service: "sms", Action: "SendSms", Version: "2021-01-11", Region: region, Type: contentType, Body: body,
	}
	return s.Deliver(ctx, m, outbound.Request{URL: s.URL, Body: body, Type: contentType, Head: func(h http.Header) {
		cloudsign.Tencent(h, s.Key, call, s.Now())
	}}, read)
}

// refused are the codes of what will never be sent: to that number, or with those values.
var refused = map[string]bool{
	"FailedOperation.PhoneNumberInBlacklist":                    true,
	"InvalidParameterValue.IncorrectPhoneNumber":                true,
	"UnsupportedOperation.UnsuportedRegion":                     true, // as Tencent Cloud spells it
	"FailedOperation.ContainSensitiveWord":                      true,
	"InvalidParameter.DirtyWordFound":                           true,
	"InvalidParameterValue.ContentLengthLimit":                  true,
	"InvalidParameterValue.ProhibitedUseUrlInTemplateParameter": true,
	"InvalidParameterValue.TemplateParameterFormatError":        true,
	"InvalidParameterValue.TemplateParameterLengthLimit":        true,
}

// read sorts Tencent Cloud's codes. One about the shop (balance, template, signature, key) is
// temporary: the operator repairs it, and the message is still due.
func read(r outbound.Reply) sms.Answer {
	var said struct {
		Response struct {
			Error         *struct{ Code string }
			SendStatusSet []struct{ Code string }
		}
	}
	if json.Unmarshal(r.Body, &said) != nil || said.Response.Error == nil && len(said.Response.SendStatusSet) != 1 {
		return sms.Answer{Verdict: sms.Unclear}
	}
	var code string
	if said.Response.Error != nil {
		code = said.Response.Error.Code
	} else {
		code = said.Response.SendStatusSet[0].Code
	}
	switch {
	case code == "Ok":
		return sms.Answer{Code: code}
	case refused[code]:
		return sms.Answer{Code: code, Verdict: sms.Refused}
	case strings.HasPrefix(code, "RequestLimitExceeded"):
		return sms.Answer{Code: code, Verdict: sms.Failed}
	case strings.HasPrefix(code, "InternalError"): // one of them is a time-out behind the API
		return sms.Answer{Code: code, Verdict: sms.Unclear}
	default:
		return sms.Answer{Code: code, Verdict: sms.Later}
	}
}
