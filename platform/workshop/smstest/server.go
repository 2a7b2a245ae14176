// Package smstest is Tencent Cloud's and Aliyun's SMS API, and a gateway of a shop's own, on
// loopback for tests. They verify signatures as the real ones do, know the templates that
// they approved, limit what a number gets, and fail in their own codes.
package smstest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"stampede/platform/base/signature"
	"stampede/platform/edge/sms"
	"stampede/platform/workshop/cloudtest"
)

// Fault is how a server answers every message.
type Fault string

// The faults. Hangs and Breaks take the message in, and answer nothing that can be read.
const (
	None        Fault = ""
	NumberLimit Fault = "number-limit"
	Blacklisted Fault = "blacklisted"
	BadNumber   Fault = "bad-number"
	Balance     Fault = "balance"
	Template    Fault = "template"
	Busy        Fault = "busy"
	Internal    Fault = "internal"
	Breaks      Fault = "breaks"
	Hangs       Fault = "hangs"
)

// The account at each server.
const (
	KeyID     = "AKIDz8krbsJ5yKBZQpn74WFkmLPx3EXAMPLE"
	Secret    = "Gu5t9xGARNpq86cd98joQYCN3EXAMPLE" //nolint:gosec // of nobody
	AppID     = "1400006666"
	Signature = "街角书店"
)

// Sent is a message that was taken in.
type Sent struct {
	ID, Phone string
	Template  string   // the provider's id, or the shop's key
	Values    []string // in the order of the template
}

// Server is a stand-in. Safe for concurrent use.
type Server struct {
	URL string
	// Approved are the names of the parameters by the ids of templates.
	Approved map[string][]string

	now   func() time.Time
	hang  chan struct{}
	mu    sync.Mutex
	fault Fault
	calls int
	sent  []Sent
}

// start serves with a provider's form until the test ends.
func start(t testing.TB, now func() time.Time, form func(*Server, http.ResponseWriter, *http.Request, []byte)) *Server {
	t.Helper()
	s := &Server{now: now, hang: make(chan struct{}), Approved: map[string][]string{}}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.calls++
		s.mu.Unlock()
		form(s, w, r, body)
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(s.hang) })
	s.URL = srv.URL
	return s
}

// Fail makes every message fail from now on, until it is called with None.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// Sent returns the messages so far.
func (s *Server) Sent() []Sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

// Calls returns how many requests there were.
func (s *Server) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// number is a phone in China or elsewhere.
var number = regexp.MustCompile(`^\+?[1-9][0-9]{6,14}$`)

// take decides about a message of a valid request, whose values are in the template's order
// or by their names.
func (s *Server) take(m Sent, byName map[string]string) Fault {
	s.mu.Lock()
	fault := s.fault
	names, approved := s.Approved[m.Template]
	for _, n := range names {
		if byName != nil {
			m.Values = append(m.Values, byName[n])
		}
	}
	if fault != None && fault != Hangs && fault != Breaks {
		s.mu.Unlock()
		return fault
	}
	switch {
	case !number.MatchString(m.Phone):
		fault = BadNumber
	case !approved || len(names) != len(m.Values) || slices.Contains(m.Values, ""):
		fault = Template
	case slices.ContainsFunc(s.sent, func(o Sent) bool { return o.Phone == m.Phone && o.ID != m.ID }):
		fault = NumberLimit // one in half a minute, or in one
	default:
		s.sent = append(s.sent, m)
	}
	s.mu.Unlock()
	if fault == Hangs {
		<-s.hang
	}
	return fault
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

var tencentCodes = map[Fault]string{
	None: "Ok", NumberLimit: "LimitExceeded.PhoneNumberThirtySecondLimit", Blacklisted: "FailedOperation.PhoneNumberInBlacklist",
	BadNumber: "InvalidParameterValue.IncorrectPhoneNumber", Balance: "FailedOperation.InsufficientBalanceInSmsPackage",
	Template: "FailedOperation.TemplateIncorrectOrUnapproved", Internal: "InternalError.Timeout",
}

// Tencent starts Tencent Cloud's API. It answers with status 200 whatever happens.
func Tencent(t testing.TB, now func() time.Time) *Server {
	t.Helper()
	api := &cloudtest.API{Service: "sms", Region: true, Action: "SendSms", Version: "2021-01-11", KeyID: KeyID, Secret: Secret, Now: now}
	return start(t, now, func(s *Server, w http.ResponseWriter, r *http.Request, body []byte) {
		refuse := func(code string) {
			answer(w, http.StatusOK, map[string]any{"Response": map[string]any{"Error": map[string]string{"Code": code, "Message": "about " + string(body)}, "RequestId": "r"}})
		}
		if code := api.Tencent(r, body); code != "" {
			refuse(code)
			return
		}
		var m struct {
			PhoneNumberSet, TemplateParamSet                  []string
			SmsSdkAppId, SignName, TemplateId, SessionContext string //nolint:revive // as Tencent Cloud spells them
		}
		switch err := json.Unmarshal(body, &m); {
		case err != nil || len(m.PhoneNumberSet) != 1 || m.PhoneNumberSet[0] == "" || m.PhoneNumberSet[0][0] != '+':
			refuse("InvalidParameter")
			return
		case m.SmsSdkAppId != AppID:
			refuse("UnauthorizedOperation.SmsSdkAppIdVerifyFail")
			return
		}
		if m.SignName != Signature {
			tell(w, m.PhoneNumberSet[0], "FailedOperation.SignatureIncorrectOrUnapproved")
			return
		}
		switch fault := s.take(Sent{ID: m.SessionContext, Phone: m.PhoneNumberSet[0], Template: m.TemplateId, Values: m.TemplateParamSet}, nil); fault {
		case Busy:
			refuse("RequestLimitExceeded")
		case Breaks, Hangs:
			http.Error(w, "<html>502</html>", http.StatusBadGateway)
		default:
			tell(w, m.PhoneNumberSet[0], tencentCodes[fault])
		}
	})
}

// tell answers about the one phone of a request.
func tell(w http.ResponseWriter, phone, code string) {
	answer(w, http.StatusOK, map[string]any{"Response": map[string]any{
		"SendStatusSet": []map[string]any{{"PhoneNumber": phone, "Code": code, "Message": "about " + phone, "Fee": 1}}, "RequestId": "r",
	}})
}

var aliyunCodes = map[Fault]string{
	None: "OK", NumberLimit: "isv.BUSINESS_LIMIT_CONTROL", Blacklisted: "OK", BadNumber: "isv.MOBILE_NUMBER_ILLEGAL",
	Balance: "isv.AMOUNT_NOT_ENOUGH", Template: "isv.SMS_TEMPLATE_ILLEGAL", Internal: "isp.SYSTEM_ERROR",
}

// Aliyun starts Aliyun's API. A blacklisted number is accepted.
func Aliyun(t testing.TB, now func() time.Time) *Server {
	t.Helper()
	api := &cloudtest.API{Action: "SendSms", Version: "2017-05-25", KeyID: KeyID, Secret: Secret, Now: now}
	return start(t, now, func(s *Server, w http.ResponseWriter, r *http.Request, body []byte) {
		refuse := func(status int, code string) {
			answer(w, status, map[string]string{"Code": code, "Message": "about " + r.URL.RawQuery, "RequestId": "r"})
		}
		q := r.URL.Query()
		switch status, code := api.Aliyun(r, body); {
		case code != "":
			refuse(status, code)
		case q.Get("SignName") != Signature:
			refuse(http.StatusOK, "isv.SMS_SIGNATURE_ILLEGAL")
		default:
			var values map[string]string
			if json.Unmarshal([]byte(q.Get("TemplateParam")), &values) != nil {
				refuse(http.StatusOK, "isv.INVALID_JSON_PARAM")
				return
			}
			switch fault := s.take(Sent{ID: q.Get("OutId"), Phone: q.Get("PhoneNumbers"), Template: q.Get("TemplateCode")}, values); fault {
			case Busy:
				refuse(http.StatusBadRequest, "Throttling.User")
			case Breaks, Hangs:
				http.Error(w, "<html>502</html>", http.StatusBadGateway)
			default:
				refuse(http.StatusOK, aliyunCodes[fault])
			}
		}
	})
}

var gatewayStatus = map[Fault]int{
	None: http.StatusAccepted, NumberLimit: http.StatusTooManyRequests, Blacklisted: http.StatusForbidden, BadNumber: http.StatusBadRequest,
	Balance: http.StatusServiceUnavailable, Template: http.StatusServiceUnavailable, Busy: http.StatusTooManyRequests,
	Internal: http.StatusInternalServerError, Breaks: http.StatusBadGateway, Hangs: http.StatusBadGateway,
}

// Gateway starts a shop's own gateway, which sends a message once, however often it gets it.
func Gateway(t testing.TB, now func() time.Time) *Server {
	t.Helper()
	return start(t, now, func(s *Server, w http.ResponseWriter, r *http.Request, body []byte) {
		var m sms.Message
		if signature.Stampede.Verify(r.Header, []byte(Secret), s.now(), body) != nil || json.Unmarshal(body, &m) != nil {
			http.Error(w, string(body), http.StatusUnauthorized)
			return
		}
		if slices.ContainsFunc(s.Sent(), func(o Sent) bool { return o.ID == m.ID }) {
			w.WriteHeader(http.StatusOK)
			return
		}
		sent := Sent{ID: m.ID, Phone: m.Phone, Template: m.Template}
		for _, p := range m.Params {
			sent.Values = append(sent.Values, p.Value)
		}
		http.Error(w, string(body), gatewayStatus[s.take(sent, nil)])
	})
}
