package humancheck

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"stampede/platform/base/clock"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/cloudsign"
	"stampede/platform/edge/outbound"
)

const (
	formType = "application/x-www-form-urlencoded"
	jsonType = "application/json; charset=utf-8"
)

// answerEncoding is how what a widget gave travels: as JSON in unpadded base64url.
var answerEncoding = base64.RawURLEncoding.Strict()

// unpack reads what a widget gave. Members that it does not give are refused.
func unpack(token string, into any) error {
	raw, err := answerEncoding.DecodeString(token)
	if err != nil || strings.ContainsAny(token, "\r\n") { // which the decoder skips
		return errMalformed
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if d.Decode(into) != nil {
		return errMalformed
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errMalformed
	}
	return nil
}

// geetest is GeeTest v4: https://docs.geetest.com/gt4/apirefer/api/server.
type geetest struct{ set Settings }

// geetestAnswer is what its widget gives.
type geetestAnswer struct {
	Lot    string `json:"lot_number"`
	Output string `json:"captcha_output"`
	Pass   string `json:"pass_token"`
	At     string `json:"gen_time"` // Unix seconds
}

func (p geetest) ask(token string, _ netip.Addr) (question, error) {
	var a geetestAnswer
	if err := unpack(token, &a); err != nil {
		return question{}, err
	}
	at, ok := parseNumber(a.At)
	if !ok || a.Lot == "" || a.Output == "" || a.Pass == "" {
		return question{}, errMalformed
	}
	form := url.Values{
		"lot_number": {a.Lot}, "captcha_output": {a.Output}, "pass_token": {a.Pass}, "gen_time": {a.At},
		"sign_token": {hex.EncodeToString(auth.MAC([]byte(p.set.VerifierSecret), []byte(a.Lot)))},
	}
	return question{once: a.Lot, at: time.Unix(int64(at), 0), Request: outbound.Request{ //nolint:gosec // below 2^53
		URL: p.set.verifierURL() + "?" + url.Values{"captcha_id": {p.set.VerifierSiteKey}}.Encode(), Body: []byte(form.Encode()), Type: formType,
	}}, nil
}

func (geetest) read(answered outbound.Reply) (verdict, error) {
	var r struct {
		Status, Result, Reason, Code string
	}
	if err := decode(answered, &r); err != nil {
		return verdict{}, err
	}
	switch {
	case r.Status == "error" && (r.Code == "-50000" || strings.HasPrefix(r.Code, "-501")): // its failure, or the shop's id
		return verdict{}, rejected(r.Code)
	case r.Status == "error" && r.Code != "": // about what the client sent
		return verdict{no: errWrong}, nil
	case r.Result == "success":
		return verdict{}, nil
	case r.Result == "fail" && r.Reason == "pass_token expire": // too old, or verified before
		return verdict{no: errUsed}, nil
	case r.Result == "fail" && strings.Contains(r.Reason, "sign_token"):
		return verdict{no: errWrong, hint: "check --verifier-secret: the verifier does not accept the signature"}, nil
	case r.Result == "fail":
		return verdict{no: errWrong}, nil
	}
	return verdict{}, fmt.Errorf("the verifier answered %d without a result", answered.Status)
}

// tencent is Tencent Cloud's captcha: https://cloud.tencent.com/document/product/1110/36926.
type tencent struct {
	set   Settings
	clock clock.Clock
}

// tencentAnswer is what its widget gives.
type tencentAnswer struct {
	Ticket string `json:"ticket"`
	Rand   string `json:"randstr"`
}

// standInTicket begins tickets that the widget makes up when it does not reach Tencent
// Cloud. Anybody can write one, so it proves nothing; whether Tencent Cloud is down, the
// shop's own requests find out.
const standInTicket = "trerror_"

func (p tencent) ask(token string, client netip.Addr) (question, error) {
	var a tencentAnswer
	if err := unpack(token, &a); err != nil {
		return question{}, err
	}
	switch {
	case a.Ticket == "" || a.Rand == "":
		return question{}, errMalformed
	case strings.HasPrefix(a.Ticket, standInTicket):
		return question{}, errWrong
	}
	if !client.IsValid() {
		client = netip.IPv4Unspecified() // it is required
	}
	body, err := json.Marshal(map[string]any{
		"CaptchaType": 9, "Ticket": a.Ticket, "Randstr": a.Rand, "UserIp": client.String(), "CaptchaAppId": json.Number(p.set.VerifierSiteKey), "AppSecretKey": p.set.VerifierSecret,
	})
	if err != nil {
		return question{}, errMalformed
	}
	at, host := p.set.apiRoot()
	call := cloudsign.Call{Host: host, Service: "captcha", Action: "DescribeCaptchaResult", Version: "2019-07-22", Type: jsonType, Body: body}
	return question{once: a.Ticket, Request: outbound.Request{URL: at, Body: body, Type: jsonType, Head: func(h http.Header) {
		cloudsign.Tencent(h, p.set.key(), call, p.clock.Now())
	}}}, nil
}

func (tencent) read(answered outbound.Reply) (verdict, error) {
	var r struct {
		Response struct {
			Error                  *struct{ Code string }
			CaptchaCode, EvilLevel int
		}
	}
	if err := decode(answered, &r); err != nil {
		return verdict{}, err
	}
	switch e := r.Response.Error; {
	case e == nil:
	case strings.HasPrefix(e.Code, "InvalidParameter"): // what the client sent is most of the parameters
		return verdict{no: errWrong, hint: "the verifier answered " + fmt.Sprintf("%.60q", e.Code) + ": if it does so to each token, check --verifier-site-key and --verifier-secret"}, nil
	default:
		return verdict{}, rejected(e.Code)
	}
	switch r.Response.CaptchaCode {
	case 0:
		return verdict{}, fmt.Errorf("the verifier answered %d without a CaptchaCode", answered.Status)
	case 1:
		if r.Response.EvilLevel > 0 {
			return verdict{no: errWrong}, nil
		}
		return verdict{}, nil
	case 8:
		return verdict{no: errLate}, nil
	case 9:
		return verdict{no: errUsed}, nil
	case 16:
		return verdict{no: errForeign}, nil
	case 100:
		return verdict{no: errWrong, hint: "check --verifier-site-key and --verifier-secret: they do not belong together, or the token is another site's"}, nil
	}
	return verdict{no: errWrong}, nil
}

// aliyun is Aliyun's captcha 2.0: https://help.aliyun.com/zh/captcha/captcha2-0/user-guide/server-integration.
type aliyun struct {
	set   Settings
	clock clock.Clock
}

// aliyunAnswer is what its widget gives.
type aliyunAnswer struct {
	Param string `json:"captcha_verify_param"`
}

func (p aliyun) ask(token string, _ netip.Addr) (question, error) {
	var a aliyunAnswer
	if err := unpack(token, &a); err != nil {
		return question{}, err
	}
	if a.Param == "" {
		return question{}, errMalformed
	}
	body := []byte(url.Values{"CaptchaVerifyParam": {a.Param}, "SceneId": {p.set.VerifierSiteKey}}.Encode())
	at, host := p.set.apiRoot()
	call := cloudsign.Call{Host: host, Action: "VerifyIntelligentCaptcha", Version: "2023-03-05", Type: formType, Body: body}
	return question{once: a.Param, Request: outbound.Request{URL: at, Body: body, Type: formType, Head: func(h http.Header) {
		cloudsign.Aliyun(h, p.set.key(), call, p.clock.Now())
	}}}, nil
}

func (aliyun) read(answered outbound.Reply) (verdict, error) {
	var r struct {
		Code   string
		Result *struct {
			VerifyResult bool
			VerifyCode   string
		}
	}
	if err := decode(answered, &r); err != nil {
		return verdict{}, err
	}
	switch {
	case r.Code == "InvalidParameter": // the client's; the shop's are checked at the start
		return verdict{no: errWrong}, nil
	case r.Code != "Success" || r.Result == nil:
		return verdict{}, rejected(r.Code)
	case r.Result.VerifyResult:
		return verdict{}, nil
	}
	switch r.Result.VerifyCode {
	case "F005", "F006": // the shop's scene
		return verdict{}, rejected(r.Result.VerifyCode)
	case "F007", "F014", "F019":
		return verdict{no: errLate}, nil
	case "F008":
		return verdict{no: errUsed}, nil
	case "F012":
		return verdict{no: errForeign}, nil
	}
	return verdict{no: errWrong}, nil
}
